package audit_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/internal/filelock"
	"service-adapter/internal/journal"
	"service-adapter/internal/operate/audit"
	"service-adapter/internal/redact"
)

var _ = Describe("The counts of results", func() {
	var path string          // of the audit log
	var output *bytes.Buffer // the log of the command, once the journal has been released

	// newLog returns the log of one command, as a process has it.
	newLog := func(command string) *audit.Log {
		secrets := &redact.Secrets{}
		output = &bytes.Buffer{}
		log := journal.New(output, secrets)
		log.Hold()
		return &audit.Log{Command: command, Path: path, Journal: log, Logger: log.Logger(0), Secrets: secrets}
	}
	end := func(command string, result error) {
		log := newLog(command)
		entry := lifecycle.Entry{Identity: lifecycle.Identity{Kind: lifecycle.Binding, ID: "b1"}}
		_ = log.Change(context.Background(), entry, func(func(lifecycle.Entry)) error { return result })
		log.Journal.Release(context.Background())
	}
	counts := func() map[audit.Result]uint64 {
		GinkgoHelper()
		counted, err := audit.Counts(path)
		Expect(err).NotTo(HaveOccurred())
		return counted
	}
	done := audit.Result{Command: "create-binding", Result: "done"}

	BeforeEach(func() { path = filepath.Join(GinkgoT().TempDir(), "audit.log") })

	It("are empty before the first result", func() {
		Expect(counts()).To(BeEmpty())
		Expect(path + ".results").NotTo(BeAnExistingFile())
	})

	It("grow with each result and survive the rotation of the log, in a file for the user alone", func() {
		end("create-binding", nil)
		end("create-binding", errors.New("the password is planted"))
		end("create-binding", context.DeadlineExceeded)
		Expect(os.Remove(path)).To(Succeed())
		end("create-binding", nil)
		end("delete-binding", lifecycle.ErrNotStored)
		Expect(counts()).To(Equal(map[audit.Result]uint64{
			done: 2,
			{Command: "create-binding", Result: "failed"}: 1, {Command: "create-binding", Result: "timeout"}: 1,
			{Command: "delete-binding", Result: "absent"}: 1,
		}))
		text, err := os.ReadFile(path + ".results")
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).To(Equal(
			`{"create-binding":{"done":2,"failed":1,"timeout":1},"delete-binding":{"absent":1}}` + "\n"))
		info, err := os.Stat(path + ".results")
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode()).To(Equal(os.FileMode(0o600)))
		Expect(filepath.Glob(path + "*")).To(ConsistOf(path, path+".results"))
	})

	It("are written after the answer", func() {
		log := newLog("create-binding")
		Expect(log.Change(context.Background(), lifecycle.Entry{}, func(func(lifecycle.Entry)) error { return nil })).
			To(Succeed())
		Expect(counts()).To(BeEmpty())
		log.Journal.Release(context.Background())
		Expect(counts()).To(HaveKeyWithValue(done, uint64(1)))
	})

	It("miss no result of concurrent commands", func() {
		const commands = 8
		var all sync.WaitGroup
		for range commands {
			secrets := &redact.Secrets{}
			log := journal.New(&bytes.Buffer{}, secrets)
			one := audit.Log{
				Command: "create-binding", Path: path, Journal: log, Logger: log.Logger(0), Secrets: secrets,
			}
			all.Go(func() {
				_ = one.Change(context.Background(), lifecycle.Entry{},
					func(func(lifecycle.Entry)) error { return nil })
			})
		}
		all.Wait()
		Expect(counts()).To(Equal(map[audit.Result]uint64{done: commands}))
	})

	DescribeTable("begin anew if the file is damaged", func(damaged string) {
		Expect(os.WriteFile(path+".results", []byte(damaged), 0o600)).To(Succeed())
		Expect(counts()).To(BeEmpty())
		end("create-binding", nil)
		Expect(counts()).To(Equal(map[audit.Result]uint64{done: 1}))
	},
		Entry("empty", ""), Entry("cut off", `{"create-binding":{"do`), Entry("zeros", "\x00\x00\x00\x00"),
		Entry("null", "null"), Entry("a list", "[1]"), Entry("a null for a command", `{"create-binding":null}`),
		Entry("larger than counts can be", `{"create-binding":{"done":5}}`+strings.Repeat(" ", 1<<16)+"x"),
	)

	It("do not keep a command waiting as long as another process holds the lock", func() {
		locked, err := filelock.Try(path + ".results")
		Expect(err).NotTo(HaveOccurred())
		Expect(locked).NotTo(BeNil())
		DeferCleanup(locked.Close)
		end("create-binding", nil) // it returns although the lock is still held
		Expect(output.String()).To(And(ContainSubstring(`level=WARN msg="a result was not added to the counts`),
			ContainSubstring("result=done")))
		Expect(counts()).To(BeEmpty())
	})

	It("are not changed if they cannot be written, and the command continues", func() {
		Expect(syscall.Mkfifo(path+".results", 0o600)).To(Succeed())
		end("create-binding", nil)
		Expect(output.String()).To(ContainSubstring("is not a regular file"))
		_, err := audit.Counts(path)
		Expect(err).To(MatchError(ContainSubstring("is not a regular file")))
		Expect(os.Remove(path + ".results")).To(Succeed())
		Expect(os.Mkdir(path+".results", 0o700)).To(Succeed())
		end("create-binding", nil)
		Expect(output.String()).To(ContainSubstring("is a directory"))
	})

	It("belong to the owner of the log if root writes them", func() {
		if os.Geteuid() != 0 {
			Skip("only root can change the owner of a file")
		}
		end("bindings delete", nil)
		Expect(os.Chown(path, 12345, 12346)).To(Succeed())
		end("bindings delete", nil)
		info, err := os.Stat(path + ".results")
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Sys().(*syscall.Stat_t)).To(And(HaveField("Uid", uint32(12345)), HaveField("Gid", uint32(12346))))
	})
})
