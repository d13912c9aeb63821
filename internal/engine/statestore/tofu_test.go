package statestore_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/engine/statestore"
)

// versions are the oldest tested version of OpenTofu, one in between and the newest.
var versions = []string{kit.Oldest, kit.Older, kit.Newest}

// configuration has a resource that needs no external provider. Its creation lasts until all writers of the pipe have
// closed it.
const configuration = `
variable "value" {
  default = "value"
}
variable "pipe" {
  default = "/dev/null"
}
resource "terraform_data" "slow" {
  triggers_replace = var.value
  provisioner "local-exec" {
    command = "cat ${var.pipe}"
  }
}
output "value" {
  value = var.value
}
`

// site is a directory in which this version of OpenTofu works on the workspace b-1 of a backend.
type site struct{ binary, dir string }

// newSite creates a directory with the configuration and initialises it, which creates the table of a backend pg.
func newSite(ctx context.Context, version string, p backend) site {
	GinkgoHelper()
	binary := kit.OpenTofu(GinkgoT(), version)
	s := site{binary, GinkgoT().TempDir()}
	// The index of the table exists. To check that, OpenTofu would wait for all sessions that change the table.
	config := map[string]any{"conn_str": p.address, "skip_index_creation": true}
	if p.kind == "local" {
		config = map[string]any{"path": filepath.Join(s.dir, "default.tfstate"), "workspace_dir": p.address}
	}
	backend, err := json.Marshal(map[string]any{"terraform": map[string]any{"backend": map[string]any{p.kind: config}}})
	Expect(err).NotTo(HaveOccurred())
	write(filepath.Join(s.dir, "backend.tf.json"), string(backend))
	write(filepath.Join(s.dir, "main.tf"), configuration)
	s.tofu(ctx, "init", "-no-color")
	return s
}

func write(path, text string) {
	GinkgoHelper()
	Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
}

func (s site) command(ctx context.Context, arguments ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, s.binary, arguments...)
	cmd.Dir = s.dir
	cmd.Env = []string{"HOME=" + s.dir, "PATH=/usr/bin:/bin", "CHECKPOINT_DISABLE=1"}
	if arguments[0] != "init" {
		cmd.Env = append(cmd.Env, "TF_WORKSPACE=b-1")
	}
	return cmd
}

// tofu runs a command of OpenTofu, which must succeed, and returns its stdout.
func (s site) tofu(ctx context.Context, arguments ...string) []byte {
	GinkgoHelper()
	cmd := s.command(ctx, arguments...)
	cmd.Stderr = GinkgoWriter
	output, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return output
}

// output returns the output "value" in a state.
func output(text []byte) any {
	GinkgoHelper()
	var file struct {
		Outputs map[string]struct{ Value any } `json:"outputs"`
	}
	Expect(json.Unmarshal(text, &file)).To(Succeed())
	return file.Outputs["value"].Value
}

var _ = Describe("OpenTofu", func() {
	var all []TableEntry
	for _, version := range versions {
		for _, kind := range []string{"local", "pg"} {
			all = append(all, Entry(version+" with "+kind, version, kind))
		}
	}

	// empty returns a backend without a table, which OpenTofu creates.
	empty := func(ctx context.Context, kind string) backend {
		if kind == "pg" {
			return newDatabase(ctx)
		}
		return newBackend(ctx, kind)
	}

	DescribeTable("and the store read the states of each other", func(ctx context.Context, version, kind string) {
		p := empty(ctx, kind)
		s := newSite(ctx, version, p)
		store := newStore(p)
		stored := state("ours", 0)
		Expect(store.Replace(ctx, "b-1", nil, stored)).To(Succeed())
		Expect(output(s.tofu(ctx, "state", "pull"))).To(Equal("ours"))
		Expect(store.Read(ctx, "b-1")).To(Equal(stored))

		s.tofu(ctx, "apply", "-no-color", "-auto-approve", "-var=value=theirs")
		theirs, err := store.Read(ctx, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(output(theirs)).To(Equal("theirs"))
		Expect(store.Delete(ctx, "b-1", stored)).To(MatchError(statestore.ErrChanged))

		if kind == "pg" {
			next := []byte(strings.Replace(string(theirs), `"theirs"`, `"ours, and longer"`, 1))
			Expect(store.Replace(ctx, "b-1", theirs, next)).To(Succeed())
			Expect(output(s.tofu(ctx, "state", "pull"))).To(Equal("ours, and longer"))
			s.tofu(ctx, "apply", "-no-color", "-auto-approve", "-var=value=theirs")
			theirs, err = store.Read(ctx, "b-1")
			Expect(err).NotTo(HaveOccurred())
			Expect(output(theirs)).To(Equal("theirs"))
		}

		Expect(store.Delete(ctx, "b-1", theirs)).To(Succeed())
		list := s.command(ctx, "workspace", "list")
		// Without TF_WORKSPACE, because "workspace list" would create the workspace.
		list.Env = list.Env[:len(list.Env)-1]
		Expect(list.Output()).NotTo(ContainSubstring("b-1"))
		s.tofu(ctx, "apply", "-no-color", "-auto-approve", "-var=value=new")
		theirs, err = store.Read(ctx, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(output(theirs)).To(Equal("new"))
	}, all)

	DescribeTable("excludes the store while it holds the lock", func(ctx context.Context, version, kind string) {
		p := empty(ctx, kind)
		s := newSite(ctx, version, p)
		store := newStore(p)
		stored := state("ours", 0)
		Expect(store.Replace(ctx, "b-1", nil, stored)).To(Succeed())
		pipe := filepath.Join(s.dir, "pipe")
		Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
		apply := s.command(ctx, "apply", "-no-color", "-auto-approve", "-var=pipe="+pipe)
		apply.Stdout, apply.Stderr = GinkgoWriter, GinkgoWriter
		Expect(apply.Start()).To(Succeed())
		DeferCleanup(func() { _ = apply.Process.Kill() })
		end, err := os.OpenFile(pipe, os.O_WRONLY, 0) // returns when the creation has begun
		Expect(err).NotTo(HaveOccurred())

		before, err := store.Read(ctx, "b-1") // OpenTofu may have stored the resource as tainted.
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Replace(ctx, "b-2", nil, stored)).To(Succeed())
		locks, err := store.Locks(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(locks).To(HaveLen(1))
		Expect(locks[0].Workspace).To(Equal("b-1"))
		Expect(locks[0].Since).To(BeTemporally("~", time.Now(), time.Hour))
		Expect(locks[0].Who).NotTo(BeEmpty())
		if kind == "local" {
			Expect(locks[0].Who).To(Equal(statestore.UserAtHost()))
			Expect(locks[0].Operation).To(Equal("OperationTypeApply"))
		}
		refused := []error{store.Delete(ctx, "b-1", before)}
		if kind == "pg" {
			refused = append(refused, store.Replace(ctx, "b-1", before, state("lost", 0)))
		}
		for _, err := range refused {
			var held *statestore.HeldError
			Expect(errors.As(err, &held)).To(BeTrue(), "%v", err)
			if kind == "local" {
				Expect(held.Operation).To(Equal("OperationTypeApply"))
				Expect(held.Who).To(ContainSubstring("@"))
				Expect(held.ID).NotTo(BeEmpty())
				Expect(held.Created).NotTo(BeZero())
			}
		}
		Expect(end.Close()).To(Succeed())
		Expect(apply.Wait()).To(Succeed())
		if kind == "local" { // a killed run leaves its lock info
			write(p.file("b-1", ".terraform.tfstate.lock.info"), "{}")
		}
		Expect(store.Locks(ctx)).To(BeEmpty())
		after, err := store.Read(ctx, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(output(after)).To(Equal("value"))
		Expect(store.Delete(ctx, "b-1", after)).To(Succeed())
	}, all)

	DescribeTable("is excluded while the store holds the lock", func(ctx context.Context, version, kind string) {
		p := empty(ctx, kind)
		s := newSite(ctx, version, p)
		store := newStore(p)
		stored := state("ours", 0)
		Expect(store.Replace(ctx, "b-1", nil, stored)).To(Succeed())
		resume, deleted := p.stopInDelete(ctx, stored)
		refused, err := s.command(ctx, "apply", "-no-color", "-auto-approve").CombinedOutput()
		Expect(err).To(HaveOccurred())
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(refused), "│", " ")), " ")
		Expect(text).To(ContainSubstring("Error acquiring the state lock"))
		if kind == "local" {
			Expect(text).To(MatchRegexp(`Lock Info: ID: [0-9a-f-]{36} Path: \S+/b-1/terraform.tfstate ` +
				`Operation: delete Who: \S+@\S+ Version: Created: `))
		} else {
			Expect(text).To(ContainSubstring("Workspace is already locked: b-1"))
		}
		resume()
		Eventually(deleted).Should(Receive(Succeed()))
		Expect(store.List(ctx)).To(BeEmpty())
	}, all)
})

// stopInDelete starts to delete the state of b-1, and returns when the store holds the lock. The deletion continues
// after resume was called. Its error is sent to deleted.
func (p backend) stopInDelete(ctx context.Context, before []byte) (resume func(), deleted chan error) {
	GinkgoHelper()
	deleted = make(chan error, 1)
	store := newStore(p)
	if p.kind == "local" {
		tmpDir, err := os.Open(p.address + ".tmp")
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Flock(int(tmpDir.Fd()), syscall.LOCK_EX)).To(Succeed())
		go func() { deleted <- store.Delete(ctx, "b-1", before) }()
		note := p.file("b-1", ".terraform.tfstate.lock.info")
		Eventually(func() ([]byte, error) { return os.ReadFile(note) }).Should(ContainSubstring("}"))
		return func() {
			GinkgoHelper()
			Expect(tmpDir.Close()).To(Succeed())
		}, deleted
	}
	session := p.session(ctx)
	for _, statement := range []string{
		"BEGIN", `SELECT FROM terraform_remote_state.states WHERE name = 'b-1' FOR UPDATE`,
	} {
		_, err := session.ExecContext(ctx, statement)
		Expect(err).NotTo(HaveOccurred())
	}
	go func() { deleted <- store.Delete(ctx, "b-1", before) }()
	locks := func() (n int, err error) {
		return n, session.QueryRowContext(ctx, `SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'`).Scan(&n)
	}
	Eventually(locks).Should(Equal(1))
	return func() {
		GinkgoHelper()
		_, err := session.ExecContext(ctx, "COMMIT")
		Expect(err).NotTo(HaveOccurred())
	}, deleted
}
