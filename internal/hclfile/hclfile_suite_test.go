package hclfile_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestHclfile(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/hclfile")
}
