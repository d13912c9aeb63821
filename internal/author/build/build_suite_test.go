package build_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPakbuild(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/author/build")
}
