package prepare_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPrepare(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/operate/prepare")
}

type object = map[string]any
