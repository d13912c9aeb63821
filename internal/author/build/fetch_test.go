package build_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/author/build"
)

// roundTripper answers requests without a network.
type roundTripper func(request *http.Request) *http.Response

func (r roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	return r(request), nil
}

func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return hex.EncodeToString(digest[:])
}

var _ = Describe("fetching", func() {
	const tofuFile = "0755 bin/linux/amd64/1.6.0/tofu"
	var archive string
	BeforeEach(func() { archive = zipOf(entry{"tofu", script, 0o755}, entry{"LICENSE", "MPL", 0o644}) })

	It("downloads a binary without url_template from its publisher", func() {
		dir := newPak("name: tofu, version: '1.6'", "name: terraform-provider-random, version: 3.7.2",
			"name: consul, version: 1.0")
		const hashicorp = "https://releases.hashicorp.com/"
		consul := zipOf(entry{"consul", script, 0o755})
		provider := zipOf(entry{"terraform-provider-random_v3.7.2_x5", script, 0o755})
		answers := map[string]string{
			"https://github.com/opentofu/opentofu/releases/download/v1.6.0/tofu_1.6.0_linux_amd64.zip":    archive,
			hashicorp + "terraform-provider-random/3.7.2/terraform-provider-random_3.7.2_linux_amd64.zip": provider,
			hashicorp + "consul/1.0/consul_1.0_linux_amd64.zip":                                           consul,
		}
		built, progress := mustBuild(dir, func(o *build.Options) {
			o.Client = &http.Client{Transport: roundTripper(func(request *http.Request) *http.Response {
				recorder := httptest.NewRecorder()
				if text, ok := answers[request.URL.String()]; ok {
					_, _ = io.WriteString(recorder, text)
				} else {
					recorder.WriteHeader(http.StatusNotFound)
				}
				return recorder.Result()
			})}
		})
		Expect(contents(built)).To(And(HaveLen(8), HaveKeyWithValue(tofuFile, script),
			HaveKeyWithValue("0644 bin/linux/amd64/1.6.0/LICENSE", "MPL"),
			HaveKey("0755 bin/linux/amd64/terraform-provider-random_v3.7.2_x5"),
			HaveKey("0755 bin/linux/amd64/consul")))
		Expect(strings.Split(progress, "\n")).To(HaveLen(5), "a line for each download, one for the pak")
		Expect(progress).To(HavePrefix(fmt.Sprintf("tofu 1.6 linux/amd64: %d B from https://github.com/opentofu/",
			len(archive))))
	})

	It("fills in the url_template for every platform", func() {
		files := serveFiles(map[string]string{
			"/tofu/1.6.0/linux/amd64": archive,
			"/tofu/1.6.0/linux/arm64": zipOf(entry{"tofu", "arm", 0o755}),
		})
		dir := newPak("name: tofu, version: 1.6.0, url_template: '" + files.URL + "/${name}/${version}/${os}/${arch}'")
		manifest := filepath.Join(dir, "manifest.yml")
		write(manifest, strings.Replace(read(manifest), "platforms:\n", "platforms:\n- {os: linux, arch: arm64}\n", 1))
		built, _ := mustBuild(dir)
		Expect(contents(built)).To(And(HaveKeyWithValue(tofuFile, script),
			HaveKeyWithValue("0755 bin/linux/arm64/1.6.0/tofu", "arm")))
	})

	It("reads local files from the pak, and otherwise from the working directory", func() {
		work := GinkgoT().TempDir()
		GinkgoT().Chdir(work)
		dir := newPak("name: tofu, version: 1.6.0, url_template: './bins/${version}/tofu'",
			"name: a, version: 1, url_template: bins/a",
			"name: b, version: 1, url_template: 'file://bins/b.tgz'",
			"name: c, version: 1, url_template: 'file://"+write(filepath.Join(GinkgoT().TempDir(), "c"), "c")+"'")
		write(filepath.Join(dir, "bins/1.6.0/tofu"), script)
		write(filepath.Join(dir, "bins/a"), "in the pak")
		write("bins/a", "in the working directory")
		write("bins/b.tgz", gzipped(tarOf(entry{"./b", "b", 0o755}, entry{"more/b.txt", "text", 0o644})))
		built, _ := mustBuild(dir)
		Expect(contents(built)).To(And(HaveLen(9), HaveKeyWithValue(tofuFile, script),
			HaveKeyWithValue("0755 bin/linux/amd64/a", "in the pak"),
			HaveKeyWithValue("0755 bin/linux/amd64/b", "b"),
			HaveKeyWithValue("0644 bin/linux/amd64/more/b.txt", "text"),
			HaveKeyWithValue("0755 bin/linux/amd64/c", "c")))
	})

	It("interprets its own parameters of a URL, and sends the others to the server", func() {
		files := serveFiles(map[string]string{"/download": archive, "/plain": script})
		dir := newPak("name: tofu, version: 1.6.0, url_template: '"+files.URL+"/download?token=a%2Fb&checksum=sha256:"+
			sum(archive)+"&z=1'",
			"name: jar, version: 1, url_template: '"+files.URL+"/download?archive=false&filename=jar.zip'",
			"name: psql, version: 1, url_template: '"+files.URL+"/plain?filename=psql&checksum="+sum(script)+"'")
		built, progress := mustBuild(dir)
		Expect(contents(built)).To(And(HaveKeyWithValue(tofuFile, script),
			HaveKeyWithValue("0755 bin/linux/amd64/jar.zip", archive),
			HaveKeyWithValue("0755 bin/linux/amd64/psql", script)))
		Expect(files.asked).To(Equal([]string{"/download?token=a%2Fb&z=1", "/download", "/plain"}))
		Expect(progress).NotTo(ContainSubstring("token"), "it may be secret")
	})

	It("keeps downloads in the cache and unpacks them from there", func() {
		files := serveFiles(map[string]string{"/tofu.zip": archive})
		template := "name: tofu, version: 1.6.0, url_template: '" + files.URL + "/tofu.zip"
		cache := filepath.Join(GinkgoT().TempDir(), "cache")
		cached := func(o *build.Options) { o.CacheDir = cache }
		dir := newPak(template + "'")
		without, _ := mustBuild(dir)
		first, _ := mustBuild(dir, cached)
		second, progress := mustBuild(dir, cached)
		Expect(files.asked).To(HaveLen(2))
		Expect(progress).To(ContainSubstring(" from the cache, downloaded from " + files.URL + "/tofu.zip\n"))
		Expect(read(first)).To(Equal(read(without)))
		Expect(read(second)).To(Equal(read(without)))

		By("fetching a file again if it no longer has the checksum")
		entries, err := os.ReadDir(cache)
		Expect(err).NotTo(HaveOccurred())
		Expect(entries).To(HaveLen(1))
		write(filepath.Join(cache, entries[0].Name()), "broken")
		manifest := filepath.Join(dir, "manifest.yml")
		write(manifest, strings.Replace(read(manifest), "/tofu.zip'", "/tofu.zip?checksum=sha256:"+sum(archive)+"'", 1))
		third, _ := mustBuild(dir, cached)
		Expect(contents(third)).To(HaveKeyWithValue(tofuFile, script))
		Expect(files.asked).To(HaveLen(3))
	})

	It("tries again after a server's failure and a broken connection, with growing pauses", func() {
		files := serve(func(_ string, attempt int, response http.ResponseWriter) {
			switch attempt {
			case 1:
				response.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				response.Header().Set("Content-Length", "1000")
				_, _ = io.WriteString(response, "only this")
			default:
				_, _ = io.WriteString(response, archive)
			}
		})
		var pauses []time.Duration
		built, progress := mustBuild(newPak("name: tofu, version: 1.6.0, url_template: "+files.URL+"/tofu"),
			func(o *build.Options) {
				o.Pause = func(_ context.Context, duration time.Duration) error {
					pauses = append(pauses, duration)
					return nil
				}
			})
		Expect(contents(built)).To(HaveKeyWithValue(tofuFile, script))
		Expect(pauses).To(Equal([]time.Duration{time.Second, 2 * time.Second}))
		Expect(progress).To(ContainSubstring("/tofu: the server answers 503 Service Unavailable; trying again in 1s"))
		Expect(progress).To(ContainSubstring("/tofu: unexpected EOF; trying again in 2s"))
	})

	It("does not repeat a request that fails because there is no network", func() {
		_, progress, err := buildPak(newPak(
			"name: tofu, version: 1.6.0, url_template: 'https://opentofu.invalid/tofu'"))
		Expect(err).To(MatchError(And(ContainSubstring("opentofu.invalid"),
			HaveSuffix("; --binary tofu=FILE reads it from a file"))))
		Expect(progress).NotTo(ContainSubstring("trying again"))
	})

	It("does not repeat a request if the file cannot be written", func(ctx context.Context) {
		files := serveFiles(map[string]string{"/tofu": archive})
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(full.Close)
		temporary, err := build.Get(ctx, build.NewClient(), files.URL+"/tofu", full)
		Expect(err).To(MatchError(syscall.ENOSPC))
		Expect(temporary).To(BeFalse())
	})

	It("does not repeat a request that is redirected too often", func() {
		server := httptest.NewServer(http.RedirectHandler("/tofu", http.StatusFound))
		DeferCleanup(server.Close)
		_, progress, err := buildPak(newPak("name: tofu, version: 1.6.0, url_template: " + server.URL + "/tofu"))
		Expect(err).To(MatchError(ContainSubstring("stopped after 10 redirects")))
		Expect(progress).NotTo(ContainSubstring("trying again"))
	})

	It("gives up after four attempts", func() {
		files := serve(func(_ string, _ int, response http.ResponseWriter) {
			response.WriteHeader(http.StatusBadGateway)
		})
		secret := strings.Replace(files.URL, "http://", "http://user:sesame@", 1)
		_, progress, err := buildPak(newPak("name: tofu, version: 1.6.0, url_template: '" + secret +
			"/tofu?token=sesame'"))
		Expect(err).To(MatchError("tofu 1.6.0 for linux/amd64: fetching " + files.URL +
			"/tofu: the server answers 502 Bad Gateway; --binary tofu=FILE reads it from a file"))
		Expect(files.asked).To(HaveLen(4))
		files.Close()
		_, more, err := buildPak(newPak("name: tofu, version: 1.6.0, url_template: '" + secret + "/tofu?token=sesame'"))
		Expect(err).To(MatchError(And(ContainSubstring("connection refused"), Not(ContainSubstring("sesame")))))
		Expect(progress + more).NotTo(ContainSubstring("sesame"))
	})

	It("stops when its context ends", func() {
		ctx, cancel := context.WithCancel(context.Background())
		files := serve(func(_ string, _ int, response http.ResponseWriter) {
			response.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(response).Flush()
			cancel()
			<-ctx.Done()
		})
		_, err := build.Build(ctx, build.Options{
			Dir:      newPak("name: tofu, version: 1.6.0, url_template: " + files.URL + "/tofu"),
			Output:   filepath.Join(GinkgoT().TempDir(), "x"),
			Progress: GinkgoWriter, Getenv: os.LookupEnv,
		})
		Expect(err).To(MatchError(context.Canceled))
		Expect(files.asked).To(HaveLen(1))
	})

	It("does not follow a redirect from https to http", func() {
		files := serveFiles(map[string]string{"/tofu": archive})
		secure := httptest.NewTLSServer(http.RedirectHandler(files.URL+"/tofu", http.StatusFound))
		DeferCleanup(secure.Close)
		client := build.NewClient()
		client.Transport = secure.Client().Transport
		dir := newPak("name: tofu, version: 1.6.0, url_template: " + secure.URL + "/tofu")
		_, progress, err := buildPak(dir, func(o *build.Options) { o.Client = client })
		Expect(err).To(MatchError(ContainSubstring("the server redirects from https to http [fetch]")))
		Expect(progress).To(BeEmpty(), "it is not tried again")
		Expect(files.asked).To(BeEmpty())
	})

	It("reports all defective entries with their positions", func() {
		files := serveFiles(map[string]string{"/tofu": archive})
		dir := newPak("name: tofu, version: 1.6.0, url_template: "+files.URL+"/none",
			"name: a, version: 1, url_template: nowhere/a",
			"name: b, version: 1, url_template: '"+files.URL+"/tofu?checksum="+sum("other")+"'")
		_, _, err := buildPak(dir)
		Expect(strings.ReplaceAll(err.Error(), dir+"/",
			"")).To(Equal("manifest.yml:8:3: tofu 1.6.0 for linux/amd64: fetching " + files.URL +
			"/none: the server answers 404 Not Found [fetch]\n" +
			"manifest.yml:9:3: a 1 for linux/amd64: there is no file nowhere/a nor nowhere/a [url-template]\n" +
			"manifest.yml:10:3: b 1 for linux/amd64: " + files.URL + "/tofu has the checksum sha256:" + sum(archive) +
			", not sha256:" + sum("other") + " [checksum]"))
		Expect(files.asked).To(HaveLen(2), "neither is tried again")
	})

	DescribeTable("rejects", func(template, message string) {
		dir := newPak("name: tofu, version: 1.6.0, url_template: '" + template + "'")
		write(filepath.Join(dir, "dir/tofu"), script)
		_, _, err := buildPak(dir)
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("unknown parameters", "https://example.com/${platform}", "unknown parameter ${platform} in"),
		Entry("other protocols", "s3://bucket/tofu",
			"s3:// is not supported; use an http or https URL or a local file"),
		Entry("forced protocols", "git::https://example.com/tofu", "git:: is not supported"),
		Entry("a text that is not a URL", "https://user:sesame@exa mple.com/", "not a URL: invalid character"),
		Entry("a directory", "dir", "dir is not a plain file"),
		Entry("a wrong checksum of a local file", "dir/tofu?checksum=sha256:"+sum("other"),
			"has the checksum sha256:"+sum(script)+", not"),
		Entry("a weak checksum", "dir/tofu?checksum=md5:d41d8cd98f00b204e9800998ecf8427e",
			"must be sha256: or sha512:"),
		Entry("a checksum that is cut off", "dir/tofu?checksum=sha256:abcd", "must be sha256: or sha512:"),
		Entry("a file name with a path", "dir/tofu?filename=../tofu", "filename of the URL must be a plain file name"),
	)

	It("limits the size of downloads", func() {
		files := serveFiles(map[string]string{"/tofu": strings.Repeat("x", 2000)})
		_, _, err := buildPak(newPak("name: tofu, version: 1.6.0, url_template: "+files.URL+"/tofu"),
			func(o *build.Options) {
				o.MaxBinary = 1024
			})
		Expect(err).To(MatchError(ContainSubstring("/tofu: larger than 1.0 kB [fetch]")))
	})
})
