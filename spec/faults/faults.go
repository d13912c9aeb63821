package main

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is designed for dot imports

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/spec/kit/hold"
	"service-adapter/spec/kit/process"
)

// A fault is a kind of fault.
type fault struct {
	name string
	// choose chooses values that the prerequisites of the action depend on. It may be nil.
	choose func(t *trial)
	fits   func(a action) bool
	inject func(ctx context.Context, t *trial, a action)
	// unfinishedAccounts is true if a state with an unfinished creation or change accounts for resources that it does
	// not contain, because its deletion first completes the creation.
	unfinishedAccounts bool
}

// faults returns all kinds of faults.
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

// workspace returns the name of the workspace that the action changes.
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
// lagging replica does.
func loseWorkspace(ctx context.Context, t *trial, a action) {
	t.afterLastWrite(a, func() { Expect(t.store.remove(ctx, t.workspace(a))).To(Succeed()) })
}

// replaceWorkspace replaces the state with that of another run at the same moment as loseWorkspace.
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

// afterLastWrite calls strike while the command is paused after its last run of OpenTofu.
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

// passOnce resumes a run that is paused at a point of OpenTofu's wrapper, and pauses the next run there.
func (t *trial) passOnce(at hold.Point) {
	held := filepath.Join(at.Dir, "hold-"+at.Name)
	var pipe *os.File
	Eventually(func() (err error) { // the run may not have opened its end yet
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

// strike kills the victim and reports whether the victim was running.
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

// chooseFailure chooses the way in which the template fails.
func chooseFailure(t *trial) {
	t.parameters = object{"failure": pick(t.random, []string{"index", "validation", "precondition", "data", "apply"})}
}

// failEvaluation runs a command whose template fails before or after it created a resource.
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

// pointOf returns a point on the machine on which the action runs.
func (t *trial) pointOf(a action, name string) hold.Point { return t.point(t.machineOf(a), name) }

// point returns a point of the provider, or of OpenTofu's wrapper on a machine.
func (t *trial) point(m *machine, name string) hold.Point {
	switch name {
	case beforeCreate, afterCreate, beforeDelete, afterDelete:
		return hold.Point{Name: name, Dir: t.entries, Provider: true}
	default:
		return hold.Point{Name: name, Dir: m.control()}
	}
}

// reaches waits until a command is paused at a point or ends, and reports whether it was paused. After the end of a
// command, the point no longer pauses commands.
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

// releaseLocks dates the locks of killed machines to the past, so that they count as stale.
func (t *trial) releaseLocks() {
	for _, workspace := range t.workspaces() {
		Expect(t.store.ageLock(workspace)).To(Succeed())
	}
}

// duration returns the usual duration of a command.
func (l *laboratory) duration(name string) time.Duration {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if known, ok := l.durations[name]; ok {
		return known
	}
	return time.Second
}

// measured stores the measured duration of a command as its usual duration.
func (l *laboratory) measured(name string, took time.Duration) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.durations[name] = took
}
