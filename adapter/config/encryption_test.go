package config_test

import (
	"encoding/base64"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter/config"
)

var _ = Describe("the configuration of the state encryption", func() {
	encoded := func(letter string, size int) string {
		return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, size)))
	}

	It("is read from the file or the environment", func() {
		text := fmt.Sprintf("{encryption: {key: %q, old_keys: [%q]}}", encoded("a", 32), encoded("b", 32))
		expected := &config.Encryption{Key: encoded("a", 32), OldKeys: []string{encoded("b", 32)}}
		config, err := load("paks: [/pak]\nstate: "+text, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.State.Encryption).To(Equal(expected))
		config, err = load("paks: [/pak]", map[string]string{"SERVICE_ADAPTER_STATE": text})
		Expect(err).NotTo(HaveOccurred())
		Expect(config.State.Encryption).To(Equal(expected))
	})

	It("is off unless it is configured", func() {
		config, err := load("paks: [/pak]", nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.State.Encryption).To(BeNil())
	})

	DescribeTable("rejects a text that is not a key, without showing it",
		func(text, message string) {
			_, err := load("paks: [/pak]\nstate: {encryption: "+text+"}", nil)
			Expect(err).To(MatchError(ContainSubstring(message)))
			Expect(err).NotTo(MatchError(MatchRegexp("s3cret|YWFh|YmJi")))
		},
		Entry("nothing", "{}", "state.encryption.key must be 32 random bytes in base64"),
		Entry("not base64", "{key: s3cret}", "state.encryption.key must be 32 random bytes in base64"),
		Entry("a short key", "{key: "+encoded("a", 31)+"}", "state.encryption.key must be 32 random bytes in base64"),
		Entry("a long key", "{key: "+encoded("a", 33)+"}", "state.encryption.key must be 32 random bytes in base64"),
		Entry("the alphabet of URLs", `{key: "`+strings.Repeat("-_", 21)+`-8="}`,
			"state.encryption.key must be 32 random bytes in base64"),
		Entry("a wrong old key", "{key: "+encoded("a", 32)+", old_keys: ["+encoded("b", 32)+", s3cret]}",
			"an entry of state.encryption.old_keys must be 32 random bytes in base64"),
		Entry("a wrong type", "s3cret", "state.encryption must be a mapping"),
		Entry("an unknown key", "{keys: s3cret}", `unknown key "keys" in state.encryption; did you mean "key"?`),
	)
})
