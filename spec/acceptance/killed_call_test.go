package acceptance_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/hold"
)

// traced returns a command of the broker to run under strace.
func (b *broker) traced(command string, parameters object) hold.Traced {
	GinkgoHelper()
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	return hold.Traced{
		Args: []string{adapterBinary, command}, Env: b.site.environment(), Dir: b.site.working,
		Stdin: input,
	}
}

// stateFile returns the path of a binding's state.
func (s *site) stateFile(binding string) string {
	return filepath.Join(s.state(), "workspaces", "b-"+binding, "terraform.tfstate")
}

// kept returns the directories that contain the resources of bindings and their states, by the names of their copies.
func (s *site) kept() map[string]string {
	return map[string]string{"entries": s.entries, "workspaces": filepath.Join(s.state(), "workspaces")}
}

// keep copies the states and the resources to a snapshot with this name. A directory that does not exist is skipped.
func (s *site) keep(name string) {
	GinkgoHelper()
	for part, dir := range s.kept() {
		Expect(os.CopyFS(filepath.Join(s.dir, name, part), os.DirFS(dir))).To(Succeed())
	}
}

// restore replaces the states and the resources with those of a snapshot. See keep.
func (s *site) restore(name string) {
	GinkgoHelper()
	for part, dir := range s.kept() {
		for _, entry := range list(dir) {
			Expect(os.RemoveAll(filepath.Join(dir, entry))).To(Succeed())
		}
		saved := filepath.Join(s.dir, name, part)
		if _, err := os.Stat(saved); !errors.Is(err, fs.ErrNotExist) {
			Expect(os.CopyFS(dir, os.DirFS(saved))).To(Succeed())
		}
	}
}

// stored returns the ids of the bindings in the operator's list.
func (b *broker) stored(ctx context.Context) []string {
	GinkgoHelper()
	got := b.run(ctx, "", "bindings", "list", "--json")
	Expect(got.Exit).To(Equal(0), got.Stderr)
	var listed struct{ Bindings []struct{ ID string } }
	Expect(json.Unmarshal([]byte(got.Stdout), &listed)).To(Succeed())
	ids := []string{}
	for _, binding := range listed.Bindings {
		ids = append(ids, binding.ID)
	}
	return ids
}

// expectSound asserts that a killed adapter left no state, or that the state or the adapter's copy of the state is
// valid JSON, and that the binding is listed if it has resources. OpenTofu truncates the state before it writes the
// state, and is killed soon after the adapter, so the state alone may be cut off.
func (b *broker) expectSound(ctx context.Context, binding string) {
	GinkgoHelper()
	text, err := os.ReadFile(b.site.stateFile(binding))
	if !errors.Is(err, fs.ErrNotExist) {
		Expect(err).NotTo(HaveOccurred())
		if !json.Valid(text) {
			saved, err := os.ReadFile(b.site.stateFile(binding) + ".backup")
			Expect(err).NotTo(HaveOccurred(), "the state is cut off: %q", text)
			Expect(json.Valid(saved)).To(BeTrue(), "the state and its copy are cut off: %q and %q", text, saved)
		}
	}
	listed := b.stored(ctx)
	if len(b.site.resources()) > 0 {
		Expect(listed).To(ContainElement(binding), "resources that are in no state")
	}
}

// expectRecovered asserts that a binding can be deleted, or created again if anew is true, after a command was killed.
func (b *broker) expectRecovered(ctx context.Context, binding string, anew bool) {
	GinkgoHelper()
	if anew {
		got := b.bind(ctx, binding, nil)
		Expect(got.Exit).To(BeElementOf(0, 49), got.Stderr)
		if got.Exit == 0 {
			Expect(credentials(got)).To(HaveKey("secret"))
		}
		got = b.unbind(ctx, binding)
		Expect(got.Exit).To(Equal(0), got.Stderr)
	} else {
		got := b.unbind(ctx, binding)
		Expect(got.Exit).To(BeElementOf(0, 41), got.Stderr)
	}
	b.site.expectNothingLeft()
}

// The names of the snapshots of a site: without bindings, with a complete binding, and with a binding whose creation
// was killed.
const nothing, complete, interrupted = "nothing", "complete", "interrupted"

// keepBindings deploys an instance and saves the snapshots "complete" and "interrupted". No binding is left.
func (b *broker) keepBindings(ctx context.Context) {
	GinkgoHelper()
	b.deploy(ctx, nil)
	Expect(b.bind(ctx, "bind-1", nil).Exit).To(Equal(0))
	b.site.keep(complete)
	Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
	killing{point: afterCreate, victim: both}.play(b)
	b.site.keep(interrupted)
	Expect(b.unbind(ctx, "bind-1").Exit).To(Equal(0))
}

var _ = Describe("the adapter's own work on a state", Ordered, ContinueOnFailure, func() {
	var brokers []*broker

	BeforeAll(func(ctx context.Context) {
		hold.Strace()
		for n := range 2 {
			b := newBroker(newSite("entries"))
			if n == 1 {
				b.site.encrypted()
			}
			b.keepBindings(ctx)
			brokers = append(brokers, b)
		}
	})

	// kill kills a command at the nth call with a name, and waits for the end of the processes that the command
	// started. They would otherwise write files while the next call restores a snapshot. If the call has not been met
	// before, kill asserts that the remaining state is sound and can be recovered.
	kill := func(ctx context.Context, b *broker, command hold.Traced, name string, nth int, met map[int]bool) {
		done := command.KillAt(ctx, name, nth, b.site.kept()["workspaces"])
		b.site.expectNoProcesses()
		reached := len(done) - 1
		if done == nil || met[reached] {
			return
		}
		met[reached] = true
		GinkgoWriter.Printf("killed at call %d: %v\n", reached, done[reached])
		b.expectSound(ctx, "bind-1")
		b.expectRecovered(ctx, "bind-1", reached%2 == 0)
	}

	// cut kills a command at each of its calls that change the state, and returns the numbers of calls that were met
	// and of all calls. The scheduling of threads decides which call is the nth, in particular on a busy machine, so
	// all calls are tried again as long as too few were met.
	cut := func(ctx context.Context, b *broker, before string, command hold.Traced, atLeast int) (hits, all int) {
		b.site.restore(before)
		calls := command.Changes(ctx, b.site.kept()["workspaces"])
		met := map[int]bool{}
		for round := 0; round == 0 || round < 10 && len(met) < atLeast; round++ {
			for index, call := range calls {
				for _, nth := range []int{call.Nth, call.NthOfAll} {
					if !met[index] {
						b.site.restore(before)
						kill(ctx, b, command, call.Name, nth, met)
					}
				}
			}
		}
		return len(met), len(calls)
	}

	DescribeTable("can be killed at any system call of",
		func(ctx context.Context, before, command string, parameters func(*broker) object, atLeast int) {
			var work []func()
			for _, b := range brokers {
				work = append(work, func() {
					hits, all := cut(ctx, b, before, b.traced(command, parameters(b)), atLeast)
					Expect(hits).To(BeNumerically(">=", atLeast), "of %d", all)
				})
			}
			together(work...)
		},
		Entry("a creation", kit.Slow(), nothing, createBinding, func(b *broker) object {
			return b.bindParameters("bind-1", nil)
		}, 8),
		Entry("a deletion", kit.Slow(), complete, deleteBinding, func(b *broker) object {
			return b.unbindParameters("bind-1")
		}, 5),
		Entry("a creation that fails", kit.Slow(), nothing, createBinding, func(b *broker) object {
			return b.bindParameters("bind-1", object{"failure": diskFull})
		}, 8),
		Entry("the deletion of an interrupted creation", kit.Slow(), interrupted, deleteBinding,
			func(b *broker) object {
				return b.unbindParameters("bind-1")
			}, 6),
	)
})
