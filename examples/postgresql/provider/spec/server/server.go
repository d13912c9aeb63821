// Package server starts a real PostgreSQL server for tests, with throw-away data, TLS and passwords. It is killed when
// the process that started it ends. Debian's package postgresql has the programs.
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

// Admin is the superuser of a Server and its password.
const (
	Admin    = "admin"
	Password = "admin's \"password\""
)

// Server is a running server on 127.0.0.1.
type Server struct {
	Port int
	// CA is the certificate, PEM, that the server's own is signed with.
	CA      string
	process *exec.Cmd
	ended   chan struct{}
}

// Start makes a cluster in an empty directory and starts it. As root it runs as the user postgres, who must be able to
// search the directories above dir.
func Start(ctx context.Context, dir string) (*Server, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return nil, errors.New("there is no PostgreSQL server; install Debian's package postgresql")
	}
	bin := filepath.Dir(found[len(found)-1])
	credential, err := unprivileged()
	if err != nil {
		return nil, err
	}
	s := &Server{ended: make(chan struct{})}
	data := filepath.Join(dir, "data")
	if err := s.initialise(ctx, bin, dir, data, credential); err != nil {
		return nil, fmt.Errorf("making a cluster: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.Port = listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of a TCP listener
	if err := listener.Close(); err != nil {
		return nil, err
	}
	//nolint:gosec // a test's own server
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

// launch starts the process. The kernel takes the thread that does so for its parent, so that thread is kept.
func (s *Server) launch() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer close(s.ended)
		err := s.process.Start()
		started <- err
		if err == nil {
			_ = s.process.Wait() // it is ended by signals
		}
	}()
	return <-started
}

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

// Stop ends the server and waits until it is gone.
func (s *Server) Stop() error {
	err := s.process.Process.Signal(syscall.SIGINT)
	<-s.ended
	return err
}

func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // PostgreSQL runs as who runs the test
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

// initialise makes the files of the cluster, with certificates, and gives them to who runs it.
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
	//nolint:gosec // a test's own server
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

// certificates makes an authority and a certificate for "localhost", which is what verify-full and verify-ca differ in.
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
