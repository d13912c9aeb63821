package backends_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"service-adapter/spec/kit"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// gate stands between a machine and PostgreSQL and kills an adapter at one of its requests. strace cannot do that: it
// counts the calls of each thread, and a goroutine that waited for an answer goes on in any. OpenTofu passes
// unhindered.
type gate struct {
	net.Listener
	server string

	mutex    sync.Mutex
	armed    bool
	nth      int  // the request at which the adapter is killed, from 1
	answered bool // after the server answered it, else before it got it
	seen     int
	killed   bool
	victim   chan int // the adapter's process id, once it is known
}

// newGate opens a gate to a server until the spec ends.
func newGate(server string) *gate {
	GinkgoHelper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	g := &gate{Listener: listener, server: server}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go g.pass(client)
		}
	}()
	return g
}

// arm has the next adapter killed at its nth request.
func (g *gate) arm(nth int, answered bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.armed, g.nth, g.answered, g.seen, g.killed, g.victim = true, nth, answered, 0, false, make(chan int, 1)
}

// disarm tells whether the adapter was killed.
func (g *gate) disarm() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.armed = false
	return g.killed
}

// pass passes a connection on.
func (g *gate) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.server)
	if err != nil {
		return
	}
	defer server.Close()
	pid := g.adapter(client)
	ready := make(chan struct{}, 1)
	go func() {
		defer server.Close() // which ends the loop below
		if pid == 0 {
			_, _ = io.Copy(server, client)
			return
		}
		for first := true; ; first = false {
			request, query, err := readRequest(client, first)
			if err != nil || query && g.strike(pid, request, server, ready) {
				return
			}
			if _, err := server.Write(request); err != nil {
				return
			}
		}
	}()
	for answer := make([]byte, 1<<16); ; {
		n, err := server.Read(answer)
		if err != nil {
			return
		}
		// ready for the next request, outside of a transaction
		if bytes.HasSuffix(answer[:n], []byte("Z\x00\x00\x00\x05I")) {
			select {
			case ready <- struct{}{}:
			default:
			}
		}
		if _, err := client.Write(answer[:n]); err != nil {
			return
		}
	}
}

// readRequest reads the messages of a client up to one that the server answers, and tells whether that ends a query.
// The first one on a connection has no type.
func readRequest(client io.Reader, first bool) (request []byte, query bool, err error) {
	for {
		header := make([]byte, 5)
		if first {
			header = header[:4]
		}
		if _, err := io.ReadFull(client, header); err != nil {
			return nil, false, err
		}
		body := make([]byte, binary.BigEndian.Uint32(header[len(header)-4:])-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return nil, false, err
		}
		request = append(append(request, header...), body...)
		if first || bytes.ContainsAny(header[:1], "SpXQ") {
			return request, !first && header[0] == 'S', nil
		}
	}
}

// adapter returns the process id of the adapter that is to be killed when the connection is its own, else 0.
func (g *gate) adapter(client net.Conn) int {
	g.mutex.Lock()
	armed, victim := g.armed, g.victim
	g.mutex.Unlock()
	if !armed {
		return 0
	}
	pid := <-victim
	victim <- pid
	port := client.RemoteAddr().(*net.TCPAddr).Port
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if len(fields) < 10 || !strings.HasSuffix(fields[1], fmt.Sprintf(":%04X", port)) {
			continue
		}
		descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		for _, descriptor := range descriptors {
			if target, err := os.Readlink(descriptor); err == nil && target == "socket:["+fields[9]+"]" {
				return pid
			}
		}
	}
	return 0
}

// strike counts a request and kills the adapter when it is the one. Nobody passes the request on then.
func (g *gate) strike(pid int, request []byte, server io.Writer, ready <-chan struct{}) bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.seen++
	if !g.armed || g.seen != g.nth {
		return false
	}
	if g.answered {
		select {
		case <-ready: // after the last request
		default:
		}
		_ = syscall.Kill(pid, syscall.SIGSTOP) // it must not do anything with the answer
		if _, err := server.Write(request); err != nil {
			return true
		}
		<-ready
	}
	g.killed = syscall.Kill(pid, syscall.SIGKILL) == nil
	return true
}

// cut starts a command and kills it at its nth request; false when it ended by itself.
func (m *machine) cut(g *gate, nth int, answered bool, name string, parameters object) bool {
	GinkgoHelper()
	g.arm(nth, answered)
	begun := m.begin(name, parameters)
	g.victim <- begun.Process.Pid
	begun.Wait()
	return g.disarm()
}

// keep saves the stored states and the entries, and returns a function that puts them back into the empty store and the
// empty directory.
func (w *world) keep(ctx context.Context) (restore func()) {
	GinkgoHelper()
	saved, entries := w.copyStates(ctx), filepath.Join(w.dir, "kept")
	Expect(os.CopyFS(entries, os.DirFS(w.entries))).To(Succeed())
	return func() {
		GinkgoHelper()
		_, err := w.server.Query(ctx, w.place,
			"INSERT INTO terraform_remote_state.states (name, data) SELECT name, data FROM "+saved)
		Expect(err).NotTo(HaveOccurred())
		Expect(os.CopyFS(w.entries, os.DirFS(entries))).To(Succeed())
	}
}

var _ = Describe("the adapter's own work on a state in pg", func() {
	var (
		w    *world
		m    *machine
		door *gate
	)

	prepare := func(ctx context.Context, encrypted bool) {
		GinkgoHelper()
		w = newWorld(ctx, pg)
		if encrypted {
			w.encrypt()
		}
		door = newGate(w.server.Address())
		m = w.bareMachine()
		state := w.state()
		state["config"] = object{"conn_str": strings.Replace(w.server.DSN(w.place), w.server.Address(),
			door.Addr().String(), 1)}
		m.set(object{"state": state})
		m.deploy(ctx)
		m.credentials(m.bind(ctx, "bind-1"))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
	}

	// cutEverywhere kills a command before and after each answer of the server, and returns how often.
	cutEverywhere := func(ctx context.Context, before func(), name string, parameters object) int {
		GinkgoHelper()
		for kills := 0; ; kills++ {
			before()
			if !m.cut(door, kills/2+1, kills%2 == 1, name, parameters) {
				return kills
			}
			GinkgoWriter.Printf("killed at request %d, answered %t\n", kills/2+1, kills%2 == 1)
			m.expectAccounted(ctx, "bind-1")
			if kills%4 < 2 {
				Expect(m.unbind(ctx, "bind-1").Exit).To(BeElementOf(0, 41))
			} else {
				again := m.bind(ctx, "bind-1")
				Expect(again.Exit).To(BeElementOf(0, 49), again.Stderr)
				if again.Exit == 0 {
					w.works("bind-1", m.credentials(again))
				}
				Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			}
			w.expectNothingLeft()
		}
	}

	It("may be cut short at any request: a creation that fails", kit.Slow(), func(ctx context.Context) {
		prepare(ctx, false)
		parameters := m.bindParameters("bind-1", object{"failure": 1})
		// To look, to reserve, to look and take over, to look and remove; each asks twice, to prepare and to run.
		Expect(cutEverywhere(ctx, func() {}, createBinding, parameters)).To(BeNumerically(">=", 2*2*6))
	})

	It("may be cut short at any request: the deletion of an interrupted creation", kit.Slow(),
		func(ctx context.Context) {
			prepare(ctx, true)
			m.killed(createBinding, m.bindParameters("bind-1"), afterMake, theMachine)
			restore := w.keep(ctx)
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			kills := cutEverywhere(ctx, restore, deleteBinding, m.unbindParameters("bind-1"))
			Expect(kills).To(BeNumerically(">=", 2*2*5))
		})
})
