package lifecycle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/lifecycle"
	"service-adapter/internal/tofu"
)

// backupOf ends lines as a backup ends.
func backupOf(entries int, lines string) []byte {
	return fmt.Appendf(nil, "%s{\"entries\":%d,\"sha256\":\"%x\"}\n", lines, entries, sha256.Sum256([]byte(lines)))
}

const backupHead = `{"format_version":"1.0"}` + "\n"

// backupLine is a line of a binding, or of what another one's name stands before.
func backupLine(workspace, id string) string {
	state := fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"x","outputs":{},"resources":[{"mode":"managed",`+
		`"type":"terraform_data","name":"_binding","provider":"p","instances":[{"attributes":{"input":{"value":{"record":"{\"format\":1,\"binding_id\":\"%s\"}","tofu":"1.12.6"}}}}]}]}`, id)
	return fmt.Sprintf(`{"workspace":"%s","kind":"binding","id":"%s","condition":"complete","state":%s}`, workspace, id, state) + "\n"
}

var _ = Describe("a backup that is read", func() {
	DescribeTable("is refused as a whole", func(text []byte, message string) {
		s := newSite()
		_, err := lifecycle.ReadBackup(s.Engine, bytes.NewReader(text), int64(len(text)))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("when it is empty", []byte(nil), "the file is cut off, or is no backup"),
		Entry("when it is something else", []byte("name: x\nother: y\n"), "line 1: invalid character"),
		Entry("when it is JSON of something else", backupOf(0, "{}\n"), `line 1: it is no backup, or has the format_version "" of a newer adapter; this one reads 1.0`),
		Entry("when it is newer", backupOf(0, `{"format_version":"2.0"}`+"\n"), `has the format_version "2.0" of a newer adapter`),
		Entry("when it goes on behind its end", append(backupOf(0, backupHead), '\n'), "changed since it was written"),
		Entry("when lines are missing", backupOf(2, backupHead+backupLine("b-b1", "b1")), "changed since it was written"),
		Entry("when a line is something else", backupOf(1, backupHead+"{}\n"), "line 2: it has neither an entry nor a digest"),
		Entry("when there is a foreign workspace", backupOf(1, backupHead+backupLine("../b-b1", "b1")), `line 2: workspace "../b-b1" is there twice, or is not that of`),
		Entry("when one is there twice", backupOf(2, backupHead+backupLine("b-b1", "b1")+backupLine("b-b1", "b1")), `line 3: workspace "b-b1" is there twice`),
		Entry("when states are mixed up", backupOf(1, backupHead+backupLine("b-b1", "b2")), "line 2: binding b2: its state is that of another one"),
		Entry("when a state is empty", backupOf(1, backupHead+`{"workspace":"b-b1","kind":"binding","id":"b1","state":{"version":4,"terraform_version":"1","serial":1}}`+"\n"),
			"line 2: binding b1: its state is empty"),
		Entry("when a state is missing", backupOf(1, backupHead+`{"workspace":"b-b1","kind":"binding","id":"b1"}`+"\n"), "line 2: binding b1: its state cannot be read"),
	)

	It("has what was written, records of newer adapters too, and tells what is unreadable", func(ctx context.Context) {
		s := newSite()
		s.made(ctx, s.record("b1"))
		s.made(ctx, s.record("a b"))
		s.made(ctx, s.record("cut"))
		s.made(ctx, s.record(""))
		for file, words := range map[string][2]string{s.file("b-b1"): {`\"format\":1`, `\"format\":99`}, s.file("b-cut"): {`"version": 4`, `"version": 5`}} {
			text, err := os.ReadFile(file)
			Expect(err).NotTo(HaveOccurred())
			Expect(os.WriteFile(file, []byte(replaced(string(text), words[0], words[1])), 0o600)).To(Succeed())
		}
		var text bytes.Buffer
		count, missing, err := lifecycle.Export(ctx, s.Manager, &text, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(count).To(Equal(3))
		Expect(missing).To(HaveLen(1))
		Expect(missing[0].ID).To(Equal("cut"))

		other := newSite()
		backup, err := lifecycle.ReadBackup(other.Engine, bytes.NewReader(text.Bytes()), int64(text.Len()))
		Expect(err).NotTo(HaveOccurred())
		for _, stored := range backup.Entries {
			Expect(backup.Import(ctx, other.Manager, stored.Workspace, false, true)).To(BeTrue())
			Expect(other.file(stored.Workspace)).NotTo(BeAnExistingFile())
			Expect(backup.Import(ctx, other.Manager, stored.Workspace, false, false)).To(BeTrue())
			Expect(backup.Import(ctx, other.Manager, stored.Workspace, true, false)).To(BeFalse())
			Expect(backup.Import(ctx, other.Manager, stored.Workspace, false, false)).To(BeFalse(), "stored since the backend was asked")
		}
		third := newSite()
		third.made(ctx, third.record("b1"))
		for _, exists := range []bool{true, false} {
			_, err := backup.Import(ctx, third.Manager, "b-b1", exists, false)
			Expect(err).To(MatchError("another state of it is stored, and is left as it is"))
		}
		before, err := s.List(ctx, lifecycle.Instance, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.List(ctx, lifecycle.Instance, nil)).To(Equal(before))
		_, err = other.Read(ctx, lifecycle.Binding, "b1")
		Expect(err).NotTo(HaveOccurred())
	})
})

func FuzzReadBackup(f *testing.F) {
	f.Add(backupHead)
	f.Add(backupHead + backupLine("b-b1", "b1") + backupLine("i-i1", "i1"))
	f.Add(backupHead + strings.ReplaceAll(backupLine("b-b1", "b1"), "binding", "instance"))
	engine, err := tofu.New(tofu.Options{CacheDir: filepath.Join(f.TempDir(), "cache"), Backend: tofu.Local(f.TempDir())})
	if err != nil {
		f.Fatal(err)
	}
	manager := &lifecycle.Manager{Engine: engine}
	f.Fuzz(func(t *testing.T, lines string) {
		text := backupOf(strings.Count(lines, "\n")-1, lines)
		backup, err := lifecycle.ReadBackup(engine, bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return
		}
		for _, stored := range backup.Entries {
			if would, err := backup.Import(t.Context(), manager, stored.Workspace, false, true); err != nil || !would {
				t.Errorf("%s: %v, %v", stored.Workspace, would, err)
			}
		}
	})
}
