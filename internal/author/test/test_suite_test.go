package test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestPaktest(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "internal/author/test")
}
