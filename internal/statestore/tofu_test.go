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

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/statestore"
)

// versions are the oldest OpenTofu, one from between and the newest.
var versions = []string{kit.Oldest, kit.Older, kit.Newest}

// configuration has a resource that needs no provider, and takes as long to make as somebody holds a pipe.
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

// site is a directory in which OpenTofu works on the workspace b-1 of a place.
type site struct{ binary, dir string }

// newSite initialises the directory, and with it the place.
func newSite(ctx context.Context, version string, p place) site {
	GinkgoHelper()
	binary := kit.OpenTofu(GinkgoT(), version)
	s := site{binary, GinkgoT().TempDir()}
	// The index of the table is there already, and to look whether it is OpenTofu would wait for all who change the table.
	config := map[string]any{"conn_str": p.where, "skip_index_creation": true}
	if p.kind == "local" {
		config = map[string]any{"path": filepath.Join(s.dir, "default.tfstate"), "workspace_dir": p.where}
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

// tofu runs a command that succeeds, and returns its output.
func (s site) tofu(ctx context.Context, arguments ...string) []byte {
	GinkgoHelper()
	cmd := s.command(ctx, arguments...)
	cmd.Stderr = GinkgoWriter
	output, err := cmd.Output()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return output
}

// output is the value in a state.
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

	// empty is a place that OpenTofu makes.
	empty := func(ctx context.Context, kind string) place {
		if kind == "pg" {
			return newDatabase(ctx)
		}
		return newPlace(ctx, kind)
	}

	DescribeTable("finds what the store stored, and the other way round", func(ctx context.Context, version, kind string) {
		p := empty(ctx, kind)
		s := newSite(ctx, version, p)
		store := opened(p)
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
		list.Env = list.Env[:len(list.Env)-1] // not in the workspace, which it would make
		Expect(list.Output()).NotTo(ContainSubstring("b-1"))
		s.tofu(ctx, "apply", "-no-color", "-auto-approve", "-var=value=new")
		theirs, err = store.Read(ctx, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(output(theirs)).To(Equal("new"))
	}, all)

	DescribeTable("keeps the lock that it holds", func(ctx context.Context, version, kind string) {
		p := empty(ctx, kind)
		s := newSite(ctx, version, p)
		store := opened(p)
		stored := state("ours", 0)
		Expect(store.Replace(ctx, "b-1", nil, stored)).To(Succeed())
		pipe := filepath.Join(s.dir, "pipe")
		Expect(syscall.Mkfifo(pipe, 0o600)).To(Succeed())
		apply := s.command(ctx, "apply", "-no-color", "-auto-approve", "-var=pipe="+pipe)
		apply.Stdout, apply.Stderr = GinkgoWriter, GinkgoWriter
		Expect(apply.Start()).To(Succeed())
		DeferCleanup(func() { _ = apply.Process.Kill() })
		end, err := os.OpenFile(pipe, os.O_WRONLY, 0) // once the resource is being made
		Expect(err).NotTo(HaveOccurred())

		before, err := store.Read(ctx, "b-1") // It may be stored already that the resource is tainted.
		Expect(err).NotTo(HaveOccurred())
		Expect(store.Replace(ctx, "b-2", nil, stored)).To(Succeed())
		Expect(store.Locked(ctx)).To(Equal(1))
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
		if kind == "local" { // what a run leaves that was killed
			write(p.file("b-1", ".terraform.tfstate.lock.info"), "{}")
		}
		Expect(store.Locked(ctx)).To(BeZero())
		after, err := store.Read(ctx, "b-1")
		Expect(err).NotTo(HaveOccurred())
		Expect(output(after)).To(Equal("value"))
		Expect(store.Delete(ctx, "b-1", after)).To(Succeed())
	}, all)

	DescribeTable("does not get the lock that the store holds", func(ctx context.Context, version, kind string) {
		p := empty(ctx, kind)
		s := newSite(ctx, version, p)
		store := opened(p)
		stored := state("ours", 0)
		Expect(store.Replace(ctx, "b-1", nil, stored)).To(Succeed())
		goOn, deleted := p.stopInDelete(ctx, stored)
		refused, err := s.command(ctx, "apply", "-no-color", "-auto-approve").CombinedOutput()
		Expect(err).To(HaveOccurred())
		text := strings.Join(strings.Fields(strings.ReplaceAll(string(refused), "│", " ")), " ")
		Expect(text).To(ContainSubstring("Error acquiring the state lock"))
		if kind == "local" {
			Expect(text).To(MatchRegexp(`Lock Info: ID: [0-9a-f-]{36} Path: \S+/b-1/terraform.tfstate Operation: delete Who: \S+@\S+ Version: Created: `))
		} else {
			Expect(text).To(ContainSubstring("Workspace is already locked: b-1"))
		}
		goOn()
		Eventually(deleted).Should(Receive(Succeed()))
		Expect(store.List(ctx)).To(BeEmpty())
	}, all)
})

// stopInDelete begins to delete the state of b-1 and stops under the lock, until the first function is called.
func (p place) stopInDelete(ctx context.Context, before []byte) (goOn func(), deleted chan error) {
	GinkgoHelper()
	deleted = make(chan error, 1)
	store := opened(p)
	if p.kind == "local" {
		place, err := os.Open(p.where + ".tmp")
		Expect(err).NotTo(HaveOccurred())
		Expect(syscall.Flock(int(place.Fd()), syscall.LOCK_EX)).To(Succeed())
		go func() { deleted <- store.Delete(ctx, "b-1", before) }()
		note := p.file("b-1", ".terraform.tfstate.lock.info")
		Eventually(func() ([]byte, error) { return os.ReadFile(note) }).Should(ContainSubstring("}"))
		return func() {
			GinkgoHelper()
			Expect(place.Close()).To(Succeed())
		}, deleted
	}
	session := p.session(ctx)
	for _, statement := range []string{"BEGIN", `SELECT FROM terraform_remote_state.states WHERE name = 'b-1' FOR UPDATE`} {
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
