package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is made for it

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/spec/kit/hold"
	"service-adapter/spec/kit/process"
)

// fault is a kind of fault.
type fault struct {
	name string
	// choose, which may be nil, chooses what the preparation of the action depends on.
	choose func(t *trial)
	fits   func(a action) bool
	inject func(ctx context.Context, t *trial, a action)
	// unfinishedAccounts says that a state whose creation or change is not finished accounts for resources that it does
	// not contain, because its deletion finishes the creation first.
	unfinishedAccounts bool
}

func faults() []fault {
	always := func(action) bool { return true }
	return []fault{
		{name: "lose", choose: chooseInstanceAlone, fits: always, inject: loseWorkspace},
		{name: "replace", choose: chooseInstanceAlone, fits: always, inject: replaceWorkspace},
		{name: "kill", fits: always, inject: killProcess, unfinishedAccounts: true},
		{
			name: "evaluation", choose: chooseFailure, fits: func(a action) bool { return a.evaluates },
			inject: failEvaluation, unfinishedAccounts: true,
		},
		{
			name: "damage", fits: func(a action) bool { return !strings.Contains(a.name, "interrupted") },
			inject: damagePrepared, unfinishedAccounts: true,
		},
	}
}

// workspace is the one that the action works on.
func (t *trial) workspace(a action) string {
	id := t.binding
	if a.kind == lifecycle.Instance {
		id = t.instance.ID
	}
	return lifecycle.Workspace(a.kind, id)
}

// chooseInstanceAlone chooses an instance without a binding.
func chooseInstanceAlone(t *trial) { t.unbound = true }

// loseWorkspace removes the workspace after OpenTofu's last write and before the adapter reads it, as a failover to a
// replica does that lags behind.
func loseWorkspace(ctx context.Context, t *trial, a action) {
	t.afterLastWrite(a, func() { Expect(t.store.remove(ctx, t.workspace(a))).To(Succeed()) })
}

// replaceWorkspace replaces the state in the same moment by that of another run.
func replaceWorkspace(ctx context.Context, t *trial, a action) {
	resources := t.random.IntN(2) == 0
	t.afterLastWrite(a, func() {
		text, err := t.store.read(ctx, t.workspace(a))
		Expect(err).NotTo(HaveOccurred())
		text, err = takenOver(text, rand.Text(), resources)
		Expect(err).NotTo(HaveOccurred())
		Expect(t.store.write(ctx, t.workspace(a), text)).To(Succeed())
	})
}

// afterLastWrite strikes while the command waits after its last run of OpenTofu.
func (t *trial) afterLastWrite(a action, strike func()) {
	at := t.pointOf(a, a.last)
	at.Hold()
	running := a.begin(t)
	stands := t.reaches(at, running)
	if stands && a.marks {
		t.passOnce(at)
		stands = t.reaches(at, running)
	}
	if stands {
		strike()
		t.struck = true
		at.Release()
	}
	t.wait(running)
}

// passOnce lets a run pass that stands at a point of the wrapped OpenTofu, and holds the next one there.
func (t *trial) passOnce(at hold.Point) {
	held := filepath.Join(at.Dir, "hold-"+at.Name)
	var pipe *os.File
	Eventually(func() (err error) { // it may not have opened its end yet
		pipe, err = os.OpenFile(held, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err
	}).Should(Succeed())
	Expect(os.Remove(held)).To(Succeed())
	Expect(os.Remove(filepath.Join(at.Dir, "at-"+at.Name))).To(Succeed())
	at.Hold()
	Expect(pipe.Close()).To(Succeed())
}

// killProcess kills the adapter, OpenTofu, the provider or all of them, at a random moment or at a random point.
func killProcess(_ context.Context, t *trial, a action) {
	victim := pick(t.random, []string{"adapter", "tofu", "terraform-provider", "machine"})
	machine := t.machineOf(a)
	if t.random.IntN(2) == 0 {
		limit := t.laboratory.duration(a.name)
		began := time.Now()
		running := a.begin(t)
		delay := time.Duration(t.random.Float64() * float64(limit))
		time.Sleep(delay)
		if hold.Gone(running.Process.Pid) {
			t.laboratory.measured(a.name, time.Since(began))
		}
		t.note("killing " + victim + " after " + delay.String())
		t.struck = t.strike(machine, running, victim)
		t.wait(running)
	} else {
		point := pick(t.random, a.points)
		at := t.pointOf(a, point)
		at.Hold()
		running := a.begin(t)
		if t.reaches(at, running) {
			t.note("killing " + victim + " at " + point)
			t.struck = t.strike(machine, running, victim)
			at.Release()
		}
		t.wait(running)
	}
	if victim == "machine" {
		t.releaseLocks()
	}
}

// strike kills the victim and reports whether it was running.
func (t *trial) strike(m *machine, running *process.Running, victim string) bool {
	switch victim {
	case "machine":
		alive := !hold.Gone(running.Process.Pid)
		process.End(m.dir)
		return alive
	case "adapter":
		return syscall.Kill(running.Process.Pid, syscall.SIGKILL) == nil
	}
	killed := false
	for _, p := range process.Below(m.dir) {
		program, _, _ := strings.Cut(p.Command, " ")
		isTofu := strings.Contains(p.Command, "/tofu ")
		if strings.Contains(filepath.Base(program), victim) || victim == "tofu" && isTofu {
			killed = syscall.Kill(p.PID, syscall.SIGKILL) == nil || killed
		}
	}
	return killed
}

// chooseFailure chooses how the template fails.
func chooseFailure(t *trial) {
	t.parameters = object{"failure": pick(t.random, []string{"index", "validation", "precondition", "data", "apply"})}
}

// failEvaluation runs a command whose template fails, in any way but one before it created anything.
func failEvaluation(_ context.Context, t *trial, a action) {
	t.struck = t.wait(a.begin(t)).Exit != 0
}

// machineOf returns the machine on which the action runs.
func (t *trial) machineOf(a action) *machine {
	if a.errand || a.destroys {
		return t.vm
	}
	return t.broker
}

// pointOf returns a point of the machine on which the action runs.
func (t *trial) pointOf(a action, name string) hold.Point { return t.point(t.machineOf(a), name) }

// point returns a point of the provider, or of the wrapped OpenTofu on a machine.
func (t *trial) point(m *machine, name string) hold.Point {
	switch name {
	case beforeMake, afterMake, beforeClear, afterClear:
		return hold.Point{Name: name, Dir: t.entries, Provider: true}
	default:
		return hold.Point{Name: name, Dir: m.control()}
	}
}

// reaches waits until a command stands at a point, and reports whether it did before it ended. One that ended is not
// held any more.
func (t *trial) reaches(at hold.Point, running *process.Running) bool {
	file := filepath.Join(at.Dir, "at-"+at.Name)
	held := filepath.Join(at.Dir, "hold-"+at.Name)
	if at.Provider {
		file, held = filepath.Join(at.Dir, ".at-"+at.Name), filepath.Join(at.Dir, ".hold-"+at.Name)
	}
	for {
		if text, err := os.ReadFile(file); err == nil && len(text) > 0 {
			return true
		}
		if hold.Gone(running.Process.Pid) {
			Expect(os.Remove(held)).To(Succeed())
			return false
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// releaseLocks makes the locks of killed machines old.
func (t *trial) releaseLocks() {
	for _, workspace := range t.workspaces() {
		Expect(t.store.ageLock(workspace)).To(Succeed())
	}
}

// duration returns how long a command usually takes.
func (l *laboratory) duration(name string) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if known, ok := l.durations[name]; ok {
		return known
	}
	return time.Second
}

// measured corrects it.
func (l *laboratory) measured(name string, took time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.durations[name] = took
}
