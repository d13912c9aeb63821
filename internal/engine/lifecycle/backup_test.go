package lifecycle_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/backend"
	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/engine/workspace"
)

// backupOf returns a backup that consists of these lines and a valid last line, which counts this many entries.
func backupOf(entries int, lines string) []byte {
	return fmt.Appendf(nil, "%s{\"entries\":%d,\"sha256\":\"%x\"}\n", lines, entries, sha256.Sum256([]byte(lines)))
}

const backupHead = `{"format_version":"1.0"}` + "\n"

// backupLine returns the line of a backup for a workspace with the state of the binding with this id.
func backupLine(workspace, id string) string {
	state := fmt.Sprintf(`{"version":4,"terraform_version":"1.12.6","serial":1,"lineage":"x","outputs":{},`+
		`"resources":[{"mode":"managed","type":"terraform_data","name":"_binding","provider":"p",`+
		`"instances":[{"attributes":{"input":{"value":{`+
		`"record":"{\"format\":1,\"binding_id\":\"%s\"}","tofu":"1.12.6"}}}}]}]}`, id)
	return fmt.Sprintf(`{"workspace":"%s","kind":"binding","id":"%s","condition":"complete","state":%s}`,
		workspace, id, state) + "\n"
}

var _ = Describe("reading a backup", func() {
	DescribeTable("rejects the whole file", func(text []byte, message string) {
		s := newSite()
		_, err := lifecycle.ReadBackup(s.Engine, bytes.NewReader(text), int64(len(text)))
		Expect(err).To(MatchError(ContainSubstring(message)))
	},
		Entry("when it is empty", []byte(nil), "the file is truncated or is not a backup"),
		Entry("when it is not JSON", []byte("name: x\nother: y\n"), "line 1: invalid character"),
		Entry("when it is JSON but not a backup", backupOf(0, "{}\n"),
			`line 1: it is not a backup, or has the format_version "" of a newer adapter; this adapter reads 1.0`),
		Entry("when its format is newer", backupOf(0, `{"format_version":"2.0"}`+"\n"),
			`has the format_version "2.0" of a newer adapter`),
		Entry("when data follows the last line", append(backupOf(0, backupHead), '\n'), "changed since it was written"),
		Entry("when lines are missing", backupOf(2, backupHead+backupLine("b-b1", "b1")),
			"changed since it was written"),
		Entry("when a line has no entry", backupOf(1, backupHead+"{}\n"),
			"line 2: it has neither an entry nor a digest"),
		Entry("when the adapter did not name a workspace", backupOf(1, backupHead+backupLine("../b-b1", "b1")),
			`line 2: workspace "../b-b1" occurs twice, or is not that of`),
		Entry("when a workspace is in it twice",
			backupOf(2, backupHead+backupLine("b-b1", "b1")+backupLine("b-b1", "b1")),
			`line 3: workspace "b-b1" occurs twice`),
		Entry("when an entry has the state of another binding", backupOf(1, backupHead+backupLine("b-b1", "b2")),
			"line 2: binding b2: its state belongs to another binding or instance"),
		Entry("when a state is empty", backupOf(1, backupHead+
			`{"workspace":"b-b1","kind":"binding","id":"b1",`+
			`"state":{"version":4,"terraform_version":"1","serial":1}}`+"\n"),
			"line 2: binding b1: its state is empty"),
		Entry("when a state is missing", backupOf(1, backupHead+`{"workspace":"b-b1","kind":"binding","id":"b1"}`+"\n"),
			"line 2: binding b1: its state cannot be read"),
	)

	It("returns the exported entries, and the export reports unreadable states", func(ctx context.Context) {
		s := newSite()
		s.create(ctx, s.record("b1"))
		s.create(ctx, s.record("a b"))
		s.create(ctx, s.record("cut"))
		s.create(ctx, s.record(""))
		replaceIn(s.file("b-b1"), `\"format\":1`, `\"format\":99`) // the record of a newer adapter is exported
		replaceIn(s.file("b-cut"), `"version": 4`, `"version": 5`)
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
			Expect(backup.RestoreWorkspace(ctx, other.Manager, stored.Workspace, false, true)).To(BeTrue())
			Expect(other.file(stored.Workspace)).NotTo(BeAnExistingFile())
			Expect(backup.RestoreWorkspace(ctx, other.Manager, stored.Workspace, false, false)).To(BeTrue())
			Expect(backup.RestoreWorkspace(ctx, other.Manager, stored.Workspace, true, false)).To(BeFalse())
			Expect(backup.RestoreWorkspace(ctx, other.Manager, stored.Workspace, false, false)).To(BeFalse(),
				"stored since the backend was asked")
		}
		third := newSite()
		third.create(ctx, third.record("b1"))
		for _, exists := range []bool{true, false} {
			_, err := backup.RestoreWorkspace(ctx, third.Manager, "b-b1", exists, false)
			Expect(err).To(MatchError("the state backend contains another state of it, which was not changed"))
		}
		before, err := s.List(ctx, lifecycle.Instance, nil)
		Expect(err).NotTo(HaveOccurred())
		Expect(other.List(ctx, lifecycle.Instance, nil)).To(Equal(before))
		restored, err := other.Lookup(ctx, lifecycle.Binding, "a b")
		Expect(err).NotTo(HaveOccurred())
		Expect(restored.Adapter).To(Equal(oldAdapter), "an import does not write records")
	})
})

var _ = DescribeTable("a file can be replaced by an empty backup", func(text string, want bool) {
	Expect(lifecycle.EmptyBackup(strings.NewReader(text))).To(Equal(want))
},
	Entry("when it has no content", "", true),
	Entry("when it is a backup without entries", string(backupOf(0, backupHead)), true),
	Entry("unless it has an entry", string(backupOf(1, backupHead+backupLine("b-b1", "b1"))), false),
	Entry("unless its last line counts entries", backupHead+`{"entries":1,"sha256":"0"}`+"\n", false),
	Entry("unless it is cut off after its head", backupHead, false),
	Entry("unless it is cut off after an entry", backupHead+backupLine("b-b1", "b1"), false),
	Entry("unless it is cut off within its head", backupHead[:9], false),
	Entry("unless its first line has no format", "{}\n"+`{"sha256":"0"}`+"\n", false),
	Entry("unless it is another kind of file", strings.Repeat("x\n", 1<<12), false),
)

func FuzzReadBackup(f *testing.F) {
	f.Add(backupHead)
	f.Add(backupHead + backupLine("b-b1", "b1") + backupLine("i-i1", "i1"))
	f.Add(backupHead + strings.ReplaceAll(backupLine("b-b1", "b1"), "binding", "instance"))
	engine, err := workspace.New(workspace.Options{
		CacheDir: filepath.Join(f.TempDir(), "cache"), Backend: backend.Local(f.TempDir()),
	})
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
			would, err := backup.RestoreWorkspace(t.Context(), manager, stored.Workspace, false, true)
			if err != nil || !would {
				t.Errorf("%s: %v, %v", stored.Workspace, would, err)
			}
		}
	})
}
