package adapter_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/adapter"
)

var _ = Describe("recorded requests", func() {
	var s *site
	var dir string

	BeforeEach(func() {
		s = newSite(GinkgoT().TempDir())
		s.serve(s.pak("one", definition{inputs: "[{field_name: password, type: string, details: x}]"}.String()))
		dir = filepath.Join(s.dir, "requests")
		s.env["SERVICE_ADAPTER_RECORD_REQUESTS"] = dir
	})

	recordings := func() []string {
		GinkgoHelper()
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		Expect(err).NotTo(HaveOccurred())
		return files
	}

	It("are for nobody else, hold no secrets, and give the same answer again", func() {
		result := s.call("generate-manifest", instance().Generate(body(object{"password": secret})))
		Expect(result.Code).To(Equal(0))
		files := recordings()
		Expect(files).To(HaveLen(1))
		info, err := os.Stat(files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)))
		text, err := os.ReadFile(files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(ContainSubstring("generate-manifest"))
		Expect(string(text)).NotTo(ContainSubstring("s3cret"))

		var stdout, stderr bytes.Buffer
		code, err := adapter.Replay(context.Background(), adapter.Invocation{Stdout: &stdout, Stderr: &stderr, Getenv: s.getenv}, files[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(code).To(Equal(0), stderr.String())
		Expect(stdout.String()).To(ContainSubstring("name: service-instance_inst-1"))
		Expect(recordings()).To(HaveLen(1), "a replay is not recorded")
	})

	It("are kept up to a number, the newest", func() {
		for i := range 205 {
			s.write(fmt.Sprintf("requests/20200101T000000.%09dZ-dashboard-url-1.json", i), "{}")
		}
		s.call("generate-manifest", instance().Generate(body(nil)))
		files := recordings()
		Expect(files).To(HaveLen(200))
		Expect(filepath.Base(files[len(files)-1])).To(ContainSubstring("generate-manifest"))
		Expect(filepath.Base(files[0])).To(Equal("20200101T000000.000000006Z-dashboard-url-1.json"))
	})

	It("do not keep a command from working where they cannot be written", func() {
		s.env["SERVICE_ADAPTER_RECORD_REQUESTS"] = s.write("a-file", "")
		result := s.call("generate-manifest", instance().Generate(body(nil)))
		Expect(result.Code).To(Equal(0))
		Expect(result.Stderr).To(ContainSubstring("recording the request"))
	})

	It("that were not recorded are refused", func() {
		_, err := adapter.Replay(context.Background(), adapter.Invocation{Getenv: s.getenv}, s.write("none.json", `{"command":"rm"}`))
		Expect(err).To(MatchError(ContainSubstring("record_requests did not make it")))
	})
})
