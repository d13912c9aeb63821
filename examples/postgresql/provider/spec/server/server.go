// Package server starts a PostgreSQL server for tests, with temporary data, TLS and passwords. The kernel kills the
// server when the process that started it ends. The package requires Debian's package postgresql.
package server

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// Admin is the name of the superuser of a Server, and Password is the superuser's password.
const (
	Admin    = "admin"
	Password = "admin's \"password\""
)

// Server is a running PostgreSQL server that listens on 127.0.0.1.
type Server struct {
	Port int
	// CA is the PEM certificate of the authority that signed the server's certificate.
	CA      string
	process *exec.Cmd
	ended   chan struct{}
}

// Start creates a database cluster in the empty directory dir, starts a server for it and waits until the server
// accepts connections. If the caller is root, the server runs as the user postgres, which must be able to search the
// directories above dir. The server's log is the file "log" in dir. Start returns an error if PostgreSQL is not
// installed, if the cluster cannot be created, or if the server ends or the context is done before the server accepts
// connections. In the last two cases, Start also returns the Server.
func Start(ctx context.Context, dir string) (*Server, error) {
	programs, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(programs) == 0 {
		return nil, errors.New("no PostgreSQL server is installed; install Debian's package postgresql")
	}
	bin := filepath.Dir(programs[len(programs)-1])
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s := &Server{ended: make(chan struct{})}
	data := filepath.Join(dir, "data")
	if err := s.initialise(ctx, bin, dir, data, credential); err != nil {
		return nil, fmt.Errorf("creating a cluster: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // the listener is a TCP listener
	if err := listener.Close(); err != nil {
		return nil, err
	}
	//nolint:gosec // the arguments are those of a test
	s.process = exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-h", "127.0.0.1", "-p", strconv.Itoa(s.Port),
		"-c", "unix_socket_directories=", "-c", "fsync=off", "-c", "ssl=on", "-c", "log_statement=all")
	s.process.SysProcAttr = &syscall.SysProcAttr{Credential: credential, Pdeathsig: syscall.SIGKILL}
	log, err := os.Create(filepath.Join(dir, "log")) //nolint:gosec // the test names the directory
	if err != nil {
		return nil, err
	}
	s.process.Stdout, s.process.Stderr = log, log
	return s, errors.Join(s.launch(), log.Close(), s.wait(ctx))
}

// launch starts the process of the server, and returns an error if it cannot be started. The kernel treats the thread
// that starts the process as its parent and kills the process when the thread ends. A goroutine therefore keeps the
// thread until the process ends, and then closes s.ended.
func (s *Server) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(s.ended)
		err := s.process.Start()
		started <- err
		if err == nil {
			_ = s.process.Wait() // the process ends because of signals, which Wait reports as an error
		}
	}()
	return <-started
}

// wait waits until the server accepts TCP connections. It returns an error if the process ends or the context is done.
func (s *Server) wait(ctx context.Context) error {
	for {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)))
		if err == nil {
			return conn.Close()
		}
		select {
		case <-s.ended:
			return errors.New("the server ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Stop terminates the server and waits until its process has ended. It returns an error if the process ended before.
func (s *Server) Stop() error {
	err := s.process.Process.Signal(syscall.SIGINT)
	<-s.ended
	return err
}

// unprivileged returns the credential of the user postgres, because PostgreSQL does not run as root. It returns nil if
// the caller is not root, and an error if the user does not exist.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the server runs as the caller's user
	}
	account, err := user.Lookup("postgres")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(account.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(account.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// initialise creates the files of the cluster in data, with certificates, and the file with the superuser's password in
// dir. bin is the directory of PostgreSQL's programs. If as is not nil, the files belong to that user.
func (s *Server) initialise(ctx context.Context, bin, dir, data string, as *syscall.Credential) error {
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(Password+"\n"), 0o600); err != nil {
		return err
	}
	if as != nil {
		user, group := int(as.Uid), int(as.Gid)
		if err := errors.Join(os.Chown(dir, user, group), os.Chown(password, user, group)); err != nil {
			return err
		}
	}
	//nolint:gosec // the arguments are those of a test
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "--no-sync",
		"--encoding=UTF8", "--locale=C",
		"--auth=scram-sha-256", "--username="+Admin, "--pwfile="+password)
	initdb.Dir, initdb.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if output, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	certificate, key, err := s.certificates()
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"server.crt": certificate, "server.key": key} {
		name = filepath.Join(data, name)
		if err := os.WriteFile(name, text, 0o600); err != nil {
			return err
		}
		if as != nil {
			if err := os.Chown(name, int(as.Uid), int(as.Gid)); err != nil {
				return err
			}
		}
	}
	return nil
}

// certificates creates an authority, which it stores in s.CA, and returns a certificate for "localhost" and its key, as
// PEM. The server listens on 127.0.0.1, which the certificate does not name: verify-ca accepts this address and
// verify-full rejects it.
func (s *Server) certificates() (certificate, key []byte, err error) {
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test CA"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "localhost"}, DNSNames: []string{"localhost"},
		NotAfter: ca.NotAfter, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	encode := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	caDER, caErr := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	leafDER, leafErr := x509.CreateCertificate(rand.Reader, leaf, ca, &leafKey.PublicKey, caKey)
	keyDER, keyErr := x509.MarshalECPrivateKey(leafKey)
	s.CA = string(encode("CERTIFICATE", caDER))
	return encode("CERTIFICATE", leafDER), encode("EC PRIVATE KEY", keyDER), errors.Join(caErr, leafErr, keyErr)
}
