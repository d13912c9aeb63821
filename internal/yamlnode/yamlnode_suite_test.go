package yamlnode_test

import (
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func TestYAMLNode(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "YAML nodes")
}
