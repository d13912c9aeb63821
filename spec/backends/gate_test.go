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

// A gate is a proxy between a machine and PostgreSQL that kills an adapter at one of its requests. strace cannot do
// this, because it counts the calls of each thread, and a goroutine that waited for a response may continue on any
// thread. OpenTofu's connections are not affected.
type gate struct {
	net.Listener
	server string

	mutex    sync.Mutex
	armed    bool
	nth      int  // the number of the request at which the adapter is killed, from 1
	answered bool // true to kill after the server's response, false to kill before the request reaches the server
	seen     int
	killed   bool
	victim   chan int // receives the adapter's process id when the adapter has started
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

// arm configures the gate to kill the next adapter at its nth request.
func (g *gate) arm(nth int, answered bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.armed, g.nth, g.answered, g.seen, g.killed, g.victim = true, nth, answered, 0, false, make(chan int, 1)
}

// disarm stops the gate from killing, and reports whether the adapter was killed.
func (g *gate) disarm() bool {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.armed = false
	return g.killed
}

// pass copies the data of a connection in both directions until one side closes it.
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
		defer server.Close() // ends the loop below
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
		// The server is ready for the next request, outside of a transaction.
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

// readRequest reads the messages of a client up to the first message that the server answers, and reports whether this
// message ends a query. The first message on a connection has no type. The error is that of the connection.
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

// adapter returns the process id of the adapter that is to be killed if the connection belongs to that adapter, and 0
// otherwise.
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

// strike counts a request and kills the adapter if the number is reached. It reports whether it did; if so, the caller
// must not pass the request on.
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
		_ = syscall.Kill(pid, syscall.SIGSTOP) // the adapter must not act on the response
		if _, err := server.Write(request); err != nil {
			return true
		}
		<-ready
	}
	g.killed = syscall.Kill(pid, syscall.SIGKILL) == nil
	return true
}

// cut starts a command and kills it at its nth request. It reports whether the command was killed before it ended by
// itself.
func (m *machine) cut(g *gate, nth int, answered bool, name string, parameters object) bool {
	GinkgoHelper()
	g.arm(nth, answered)
	begun := m.begin(name, parameters)
	g.victim <- begun.Process.Pid
	begun.Wait()
	return g.disarm()
}

// keep copies the stored states and the entries. It returns a function that restores them into the empty backend and
// the empty directory.
func (w *world) keep(ctx context.Context) (restore func()) {
	GinkgoHelper()
	saved, entries := w.copyStates(ctx), filepath.Join(w.dir, "kept")
	Expect(os.CopyFS(entries, os.DirFS(w.entries))).To(Succeed())
	return func() {
		GinkgoHelper()
		_, err := w.server.Query(ctx, w.location,
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
		state["config"] = object{"conn_str": strings.Replace(w.server.DSN(w.location), w.server.Address(),
			door.Addr().String(), 1)}
		m.set(object{"state": state})
		m.deploy(ctx)
		m.credentials(m.bind(ctx, "bind-1"))
		Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
	}

	// cutEverywhere kills a command before and after each response of the server, and returns the number of kills.
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

	It("can be killed at any request: a creation that fails", kit.Slow(), func(ctx context.Context) {
		prepare(ctx, false)
		parameters := m.bindParameters("bind-1", object{"failure": 1})
		// The adapter reads the state, reserves, reads and takes over, reads and removes. It sends two requests for
		// each: one to prepare the statement, one to execute it.
		Expect(cutEverywhere(ctx, func() {}, createBinding, parameters)).To(BeNumerically(">=", 2*2*6))
	})

	It("can be killed at any request: the deletion of an interrupted creation", kit.Slow(),
		func(ctx context.Context) {
			prepare(ctx, true)
			m.killed(createBinding, m.bindParameters("bind-1"), afterCreate, theMachine)
			restore := w.keep(ctx)
			Expect(m.unbind(ctx, "bind-1").Exit).To(Equal(0))
			kills := cutEverywhere(ctx, restore, deleteBinding, m.unbindParameters("bind-1"))
			Expect(kills).To(BeNumerically(">=", 2*2*5))
		})
})
