package lint_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/diag"
)

var _ = It("warns of a bundled OpenTofu with a defect, at its version", func() {
	found, _ := lintPak(writePak(map[string]string{"manifest.yml": "terraform_binaries:\n- name: tofu\n" +
		"  default: true\n  version: 1.12.0\n- {name: tofu, version: 1.6.2}\n- {name: psql, version: 1.12.0}\n"}))
	Expect(found).To(HaveLen(1))
	Expect(found[0].Rule).To(Equal("opentofu-defect"))
	Expect(found[0].Severity).To(Equal(diag.Warning))
	Expect(found[0].Message).To(And(ContainSubstring("opentofu#4374"), HaveSuffix("use 1.12.6")))
	Expect(found[0].Pos.Column).To(Equal(12), "the column of the version")
})
