package opentofu_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestOpenTofu(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "opentofu")
}
