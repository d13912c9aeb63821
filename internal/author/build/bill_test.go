package build_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/build"
)

// billComponent is the part of a component of a bill that the specs read.
type billComponent struct {
	Type, Name, Version string
	Ref                 string              `json:"bom-ref"`
	Hashes              []map[string]string `json:"hashes"`
	ExternalReferences  []struct {
		URL    string
		Hashes []map[string]string
	}
}

// billOf returns the components of the bill of a built pak, by their references.
func billOf(file string) map[string]billComponent {
	GinkgoHelper()
	var bill struct{ Components []billComponent }
	Expect(json.Unmarshal([]byte(contents(file)["0644 bom.cdx.json"]), &bill)).To(Succeed())
	components := map[string]billComponent{}
	for _, component := range bill.Components {
		components[component.Ref] = component
	}
	return components
}

func sha256Hex(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) }

var _ = Describe("the bill of materials of a built pak", func() {
	It("has the digest of each executable, and the origin and the digest of the archive that it was in", func() {
		archive := zipOf(entry{"tofu", script, 0o755}, entry{"LICENSE", "MPL", 0o644})
		files := serveFiles(map[string]string{"/tofu.zip": archive})
		dir := newPak("name: tofu, version: '1.6', url_template: '"+files.URL+"/tofu.zip?token=secret&checksum=sha256:"+
			sha256Hex(archive)+"'",
			"name: psql, version: 16, url_template: 'tools/psql?archive=false'", "name: other, version: 1")
		write(filepath.Join(dir, "tools/psql"), "#!/bin/sh\n")
		override := write(filepath.Join(GinkgoT().TempDir(), "mine"), "#!/bin/sh\nexit\n")
		built, _ := mustBuild(dir, from("other", override))

		bill := billOf(built)
		Expect(bill).To(HaveLen(4))
		tofu := bill["bin/linux/amd64/1.6.0/tofu"]
		Expect(tofu.Name+" "+tofu.Version).To(Equal("tofu 1.6.0"), "the version of files, not of the manifest")
		Expect(tofu.Hashes).To(ConsistOf(HaveKeyWithValue("content", sha256Hex(script))))
		Expect(tofu.ExternalReferences).To(HaveLen(1))
		Expect(tofu.ExternalReferences[0].URL).To(Equal(files.URL + "/tofu.zip"))
		Expect(tofu.ExternalReferences[0].Hashes).To(ConsistOf(HaveKeyWithValue("content", sha256Hex(archive))))
		Expect(bill["bin/linux/amd64/psql"].ExternalReferences[0].URL).To(Equal("tools/psql"))
		Expect(bill["bin/linux/amd64/other"].ExternalReferences[0].URL).To(Equal("mine"), "no path of this machine")
		Expect(bill["bin/linux/amd64/1.6.0/LICENSE"].Type).To(Equal("file"))
	})

	It("lists source code, and does not exist in a directory for tests", func() {
		code := zipOf(entry{"main.go", "package main", 0o644})
		files := serveFiles(map[string]string{"/a.zip": code})
		tofu := write(filepath.Join(GinkgoT().TempDir(), "tofu"), script)
		dir := newPak("name: tofu, version: 1.6.0, source: " + files.URL + "/a.zip")
		built, _ := mustBuild(dir, from("tofu", tofu), func(o *build.Options) { o.IncludeSource = true })
		Expect(billOf(built)).To(HaveKey("src/tofu.zip"))

		unpacked, _ := mustBuild(dir, from("tofu", tofu), func(o *build.Options) { o.Unpacked = true })
		Expect(filepath.Join(unpacked, "manifest.yml")).To(BeAnExistingFile())
		Expect(filepath.Join(unpacked, "bom.cdx.json")).NotTo(BeAnExistingFile())
	})
})
