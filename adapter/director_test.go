package adapter_test

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
	"service-adapter/internal/director"
)

var _ = Describe("how to reach the Director", func() {
	read := func(text string, mode os.FileMode) (*director.Config, string, error) {
		path := filepath.Join(GinkgoT().TempDir(), "director.yml")
		Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		Expect(os.Chmod(path, mode)).To(Succeed())
		config, err := adapter.ReadDirector(path)
		return config, path, err
	}

	It("is read from a file that not everybody may read", func() {
		text := "url: u\nca_cert: |\n  c\nclient_id: i\nclient_secret: 0123\nusername: ~\npassword: 2026-01-02\n"
		config, _, err := read(text, 0o640)
		Expect(err).NotTo(HaveOccurred())
		Expect(*config).To(Equal(director.Config{URL: "u", CACert: "c\n", ClientID: "i", ClientSecret: "0123", Password: "2026-01-02"}))
		_, path, err := read(text, 0o644)
		Expect(err).To(MatchError(path + " holds a secret and everybody may use it (mode 0644): make it 0600"))
		_, err = adapter.ReadDirector(path + "x")
		Expect(err).To(MatchError(os.ErrNotExist))
	})

	DescribeTable("is refused in a file, without showing what is in it", func(text, wanted string) {
		_, path, err := read(text, 0o600)
		Expect(err).To(MatchError(path + wanted))
	},
		Entry("no YAML", "password: *planted", ": no valid YAML: a text that begins with * must be quoted"),
		Entry("a text", "planted", ":1: the configuration must be a mapping"),
		Entry("a list", "[url]", ":1: the configuration must be a mapping"),
		Entry("an unknown key", "url: u\nclient-secret: planted", `:2: unknown key "client-secret"; did you mean "client_secret"?`),
		Entry("a key twice", "url: u\nurl: v", `:2: key "url" is there twice`),
		Entry("a value that is no text", "password: [planted]", ":1: password must be a text"),
	)
})
