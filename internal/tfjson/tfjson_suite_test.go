package tfjson_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestTfjson(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/tfjson")
}
