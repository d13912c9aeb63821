package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// audited enables the audit log of the site and returns its path.
func (s *site) audited() string {
	GinkgoHelper()
	path := filepath.Join(s.dir, "audit", "audit.log")
	Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
	s.set(object{"audit_log": path})
	return path
}

// events decodes an audit log. It returns the complete events, and the number of lines that are not valid JSON.
func events(path string) (whole []object, others int) {
	GinkgoHelper()
	text, err := os.ReadFile(path)
	Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(text)) {
		var event object
		if json.Unmarshal([]byte(line), &event) != nil {
			others++
			continue
		}
		whole = append(whole, event)
	}
	return whole, others
}

// comparableEvents returns the events of an audit log as JSON, without the values that differ between runs. It asserts
// that the begin and the end of an operation share an id that no other event has.
func comparableEvents(path string) []string {
	GinkgoHelper()
	whole, others := events(path)
	Expect(others).To(BeZero())
	pairs, all := map[any][]any{}, []string{}
	for _, event := range whole {
		at, err := time.Parse(time.RFC3339, event["time"].(string))
		Expect(err).NotTo(HaveOccurred())
		Expect(at).To(BeTemporally("~", time.Now(), 10*time.Minute))
		Expect(at.Location()).To(Equal(time.UTC))
		pairs[event["id"]] = append(pairs[event["id"]], event["event"])
		if event["event"] == "end" {
			// A request that is rejected within half a millisecond has 0 seconds.
			Expect(event["seconds"]).To(And(BeNumerically(">=", 0), BeNumerically("<", 600)))
		}
		for _, key := range []string{"time", "id", "seconds"} {
			delete(event, key)
		}
		all = append(all, encode(event))
	}
	for id, pair := range pairs {
		Expect(pair).To(Equal([]any{"begin", "end"}), "%v", id)
	}
	return all
}

var _ = Describe("the audit log", func() {
	const (
		ownerFields    = `"app_guid":"app","organization_guid":"org","space_guid":"space"`
		instanceFields = `"instance_id":"inst-1","pak":"entries","pak_version":"0.1.0","plan":"standard",` +
			`"service":"entries","tofu_version":"` + kit.Newest + `"`
	)
	// line returns an event in the form of comparableEvents.
	line := func(event, more string) string {
		var fields object
		Expect(json.Unmarshal([]byte(`{"event":"`+event+`",`+more+`}`), &fields)).To(Succeed())
		return encode(fields)
	}

	It("records the beginning and the result of each bind and unbind, as standard error does",
		func(ctx context.Context) {
			b := newBroker(newSite("entries"))
			path := b.site.audited()
			b.deploy(ctx, nil)
			Expect(path).NotTo(BeAnExistingFile(), "generating a manifest without a provision template writes no event")
			create := b.bindParameters("bind-1", nil)
			create["request_parameters"].(object)["context"] = object{"organization_guid": "org", "space_guid": "space"}
			got := b.call(ctx, createBinding, create)
			Expect(got.Exit).To(Equal(0))
			Expect(strings.Split(got.Stderr, "\n")).To(ContainElements(
				MatchRegexp(
					`level=INFO msg=audit event=begin id=\w+ command=create-binding binding_id=bind-1 `+
						`instance_id=inst-1 .* app_guid=app `),
				MatchRegexp(
					`level=INFO msg=audit event=end id=\w+ command=create-binding .* result=done seconds=[0-9.]+$`),
			))
			Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(49))
			Expect(b.bind(ctx, "bind-2", object{"unknown": 1}).Exit).To(Equal(1))
			Expect(b.bind(ctx, "bind-2", object{"failure": diskFull}).Exit).To(Equal(1))
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(41))
			bind, again := `"command":"create-binding","binding_id":"bind-1",`+
				instanceFields, `"command":"create-binding","binding_id":"bind-2",`
			unbind := `"command":"delete-binding","binding_id":"bind-1",` + instanceFields
			Expect(comparableEvents(path)).To(Equal([]string{
				line("begin", bind+","+ownerFields), line("end", bind+`,"result":"done",`+ownerFields),
				line("begin", bind+`,"app_guid":"app"`), line("end", bind+`,"app_guid":"app","result":"exists"`),
				line("begin", again+instanceFields+`,"app_guid":"app"`),
				line("end", again+instanceFields+`,"app_guid":"app","result":"refused"`),
				line("begin", again+instanceFields+`,"app_guid":"app"`),
				line("end", again+instanceFields+`,"app_guid":"app","result":"failed"`),
				// the owner of the binding is read from its record
				line("begin", unbind), line("end", unbind+`,"result":"done",`+ownerFields),
				line("begin", unbind), line("end", unbind+`,"result":"absent"`),
			}))
			Expect(modes(filepath.Dir(path))).To(BeEmpty())
		})

	It("records a manifest whose provision template is applied, and omits the check for pending changes",
		func(ctx context.Context) {
			b := newProvisionedBroker()
			path := b.site.audited()
			b.deploy(ctx, nil)
			b.check(ctx)
			apply := `"command":"generate-manifest","instance_id":"inst-1","service":"entries","plan":"standard",` +
				`"pak":"provisioned","pak_version":"0.1.0","tofu_version":"` + kit.Newest +
				`","organization_guid":"org","space_guid":"space"`
			Expect(comparableEvents(path)).To(Equal([]string{
				line("begin", apply), line("end", apply+`,"result":"done"`),
			}))
			b.deploy(ctx, nil)
			Expect(comparableEvents(path)).To(HaveLen(4))
		})

	It("contains the beginning without an end if the adapter is killed", func(ctx context.Context) {
		b := newBroker(newSite("entries"))
		path := b.site.audited()
		b.deploy(ctx, nil)
		killing{point: afterCreate, victim: both}.play(b)
		whole, _ := events(path)
		Expect(whole).To(HaveLen(1))
		Expect(whole[0]).To(And(HaveKeyWithValue("event", "begin"), HaveKeyWithValue("binding_id", "bind-1"),
			Not(HaveKey("result"))))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
	})

	It("has only complete lines after twenty simultaneous binds during which it is rotated",
		kit.Slow(), func(ctx context.Context) {
			b := newBroker(newSite("entries"))
			path := b.site.audited()
			b.deploy(ctx, nil)
			all := func(do func(id string) answer) {
				var things []func()
				for i := range 20 {
					things = append(things, func() {
						defer GinkgoRecover()
						Expect(do(fmt.Sprintf("bind-%d", i)).Exit).To(Equal(0))
						if i%5 == 0 {
							Expect(os.Rename(path, fmt.Sprintf("%s.%d", path, i))).To(Or(Succeed(),
								MatchError(os.ErrNotExist)))
						}
					})
				}
				together(things...)
			}
			all(func(id string) answer { return b.bind(ctx, id, nil) })
			Expect(os.ReadFile(path + ".results")).To(MatchJSON(`{"create-binding": {"done": 20}}`))
			Expect(os.Remove(path + ".results")).To(Succeed())
			files, err := filepath.Glob(path + "*")
			Expect(err).NotTo(HaveOccurred())
			Expect(len(files)).To(BeNumerically(">", 2))
			ids := map[any]int{}
			for _, file := range files {
				whole, others := events(file)
				Expect(others).To(BeZero())
				for _, event := range whole {
					ids[event["id"]]++
				}
				Expect(modes(filepath.Dir(file))).To(BeEmpty())
				Expect(os.Remove(file)).To(Succeed())
			}
			Expect(ids).To(HaveLen(20))
			Expect(ids).To(HaveEach(2))

			Expect(b.bind(ctx, "bind-20", nil).Exit).To(Equal(0))
			Expect(os.Truncate(path, 0)).To(Succeed()) // as copytruncate does after copying the file
			together(
				func() { Expect(b.unbind(ctx, "bind-20").Exit).To(Equal(0)) },
				func() { Expect(b.unbind(ctx, "bind-19").Exit).To(Equal(0)) },
			)
			Expect(comparableEvents(path)).To(HaveLen(4))
		})

	// mounted mounts a small disk at the directory of the audit log.
	mounted := func(path string, flags uintptr) {
		GinkgoHelper()
		err := syscall.Mount("tmpfs", filepath.Dir(path), "tmpfs", flags, "size=64k,mode=700")
		if errors.Is(err, syscall.EPERM) {
			kit.Missing(GinkgoT(), "a file system may not be mounted here; run the test as root, where that is allowed")
		}
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(func() { Expect(syscall.Unmount(filepath.Dir(path), syscall.MNT_DETACH)).To(Succeed()) })
	}

	DescribeTable("does not prevent binds if the log cannot be written, because the log",
		func(ctx context.Context, hinder func(path string), reason string) {
			b := newBroker(newSite("entries"))
			path := b.site.audited()
			hinder(path)
			b.deploy(ctx, nil)
			got := b.bind(ctx, "bind-1", nil)
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(strings.Count(got.Stderr, "level=ERROR")).To(Equal(2), got.Stderr)
			Expect(got.Stderr).To(And(ContainSubstring("writing the audit log"), ContainSubstring(reason)))
			Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		},
		Entry("is on a read-only disk",
			func(path string) { mounted(path, syscall.MS_RDONLY) }, "read-only file system"),
		Entry("has no directory", func(path string) {
			Expect(os.Remove(filepath.Dir(path))).To(Succeed())
		}, "no such file or directory"),
		Entry("is a directory", func(path string) { Expect(os.Mkdir(path, 0o700)).To(Succeed()) }, "is a directory"),
		Entry("is a pipe without a reader", func(path string) {
			Expect(syscall.Mkfifo(path, 0o600)).To(Succeed())
		}, "not a regular file"),
	)

	It("continues with a new line after the disk was full", func(ctx context.Context) {
		b := newBroker(newSite("entries"))
		path := b.site.audited()
		mounted(path, 0)
		b.deploy(ctx, nil)
		// The disk then has space for only half a line.
		Expect(os.WriteFile(path, []byte(`{"x":"`+strings.Repeat("x", 4000)+"\"}\n"), 0o600)).To(Succeed())
		filling := filepath.Join(filepath.Dir(path), "filling")
		Expect(os.WriteFile(filling, make([]byte, 64<<10), 0o600)).To(MatchError(syscall.ENOSPC))
		got := b.bind(ctx, "bind-1", nil)
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(got.Stderr).To(ContainSubstring("no space left on device"))
		Expect(os.Remove(filling)).To(Succeed())
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		whole, others := events(path)
		Expect(others).To(Equal(1), "the incomplete line")
		Expect(whole).To(HaveLen(3))
		Expect(whole[1:]).To(HaveEach(HaveKeyWithValue("command", "delete-binding")))
		Expect(b.run(ctx, "", "metrics").Stdout).To(
			MatchRegexp(`result_timestamp_seconds\{command="(create-binding|unknown)",result="interrupted"\} \d`))
	})

	It("contains no secret", func(ctx context.Context) {
		b := newBroker(newSite("entries"))
		path := b.site.audited()
		b.deploy(ctx, object{"text": planted("deployed")})
		secret := credentials(b.bind(ctx, "bind-1",
			object{"content": planted("parameter"), "tree": planted("tree")}))["secret"].(string)
		Expect(b.bind(ctx, "bind-2", object{"failure": diskFull, "content": planted("parameter")}).Exit).To(Equal(1))
		Expect(b.bind(ctx, "password="+planted("id"), nil).Exit).To(Equal(0))
		Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
		text, err := os.ReadFile(path)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).NotTo(Or(ContainSubstring("planted-in-"), ContainSubstring(secret)))
		Expect(os.ReadFile(path + ".results")).To(MatchJSON(
			`{"create-binding": {"done": 2, "failed": 1}, "delete-binding": {"done": 1}}`))
		Expect(comparableEvents(path)).To(HaveLen(8))
	})
})
