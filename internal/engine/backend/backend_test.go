package backend_test

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/spec/kit"
)

func TestBackend(t *testing.T) {
	kit.Suite(t, "internal/engine/backend")
}

var _ = Describe("Local", func() {
	It("stores the states of all workspaces, also of the default one, in the directory", func() {
		dir := GinkgoT().TempDir()
		b := backend.Local(dir)
		Expect(b.Config).To(Equal(map[string]any{
			"path":          filepath.Join(dir, "default.tfstate"),
			"workspace_dir": filepath.Join(dir, "workspaces"),
		}))
		Expect(b.Directory()).To(Equal(filepath.Join(dir, "workspaces")))
		Expect(os.ReadDir(dir)).To(BeEmpty())
	})
})

var _ = DescribeTable("Identity has the place of the states in the storage, without hosts and credentials",
	func(kind string, config, identity map[string]any) {
		b := backend.Backend{Type: kind, Config: config}
		expected := map[string]string{}
		for key, text := range identity {
			expected[key], _ = text.(string)
		}
		Expect(b.Identity()).To(Equal(expected))
	},
	Entry("of pg with defaults", "pg",
		map[string]any{"conn_str": "postgres://admin:secret@db/states"},
		map[string]any{"schema_name": "terraform_remote_state", "table_name": "states"}),
	Entry("of pg", "pg",
		map[string]any{"schema_name": "adapter", "table_name": "t"},
		map[string]any{"schema_name": "adapter", "table_name": "t"}),
	Entry("of s3 with defaults", "s3",
		map[string]any{"bucket": "b", "key": "k", "secret_key": "secret", "endpoint": "https://store"},
		map[string]any{"bucket": "b", "key": "k", "workspace_key_prefix": "env:"}),
	Entry("of s3", "s3",
		map[string]any{"bucket": "b", "key": "k", "workspace_key_prefix": "states"},
		map[string]any{"bucket": "b", "key": "k", "workspace_key_prefix": "states"}),
	Entry("of gcs, whose prefix has slashes that OpenTofu ignores", "gcs",
		map[string]any{"bucket": "b", "prefix": "/states/", "credentials": "secret"},
		map[string]any{"bucket": "b", "prefix": "states"}),
	Entry("of azurerm", "azurerm",
		map[string]any{"container_name": "c", "key": "k", "access_key": "secret"},
		map[string]any{"container_name": "c", "key": "k"}),
	Entry("of oss", "oss",
		map[string]any{"bucket": "b"},
		map[string]any{"bucket": "b", "prefix": "env:", "key": "terraform.tfstate"}),
	Entry("of cos", "cos",
		map[string]any{"bucket": "b", "prefix": "states"},
		map[string]any{"bucket": "b", "prefix": "states", "key": "terraform.tfstate"}),
	Entry("of local, which has none", "local", map[string]any{"workspace_dir": "/states"}, nil),
	Entry("of a type that is not known, which has none", "kubernetes", map[string]any{"namespace": "n"}, nil),
)

var _ = DescribeTable("ConfigFile writes texts that OpenTofu does not take for templates",
	func(setting, written string) {
		text, err := backend.Backend{Type: "pg", Config: map[string]any{"conn_str": setting}}.ConfigFile()
		Expect(err).NotTo(HaveOccurred())
		Expect(text).To(Equal("{\n  \"conn_str\": \"" + written + "\"\n}"))
	},
	Entry("plain", "a$b%c", "a$b%c"),
	Entry("an interpolation", "p${x}", "p$${x}"),
	Entry("a directive", "p%{if x}", "p%%{if x}"),
)
