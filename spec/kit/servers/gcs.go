package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
)

// GCSVersion is the version of fake-gcs-server, which emulates Google's storage.
const GCSVersion = "1.56.1"

// GCS starts a server of Google's storage that keeps its buckets as directories below dir/buckets. It does not check
// credentials. The error is an ErrMissing if fake-gcs-server is not installed.
func GCS(ctx context.Context, dir string) (*Server, error) {
	binary, err := tool("fake-gcs-server", GCSVersion, "fake-gcs-server")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	buckets := filepath.Join(dir, "buckets")
	if err := os.MkdirAll(buckets, 0o700); err != nil {
		return nil, err
	}
	s := &Server{Host: "127.0.0.1", Port: port, Dir: dir, log: filepath.Join(dir, "log"), stop: syscall.SIGTERM}
	s.command = func() *exec.Cmd {
		cmd := exec.Command(binary, "-scheme", "http", "-host", s.Host, "-port", strconv.Itoa(s.Port), "-public-host",
			s.Address(),
			"-external-url", s.URL(), "-filesystem-root", buckets)
		cmd.Env, cmd.Dir = []string{"HOME=" + dir}, dir
		return cmd
	}
	return s, s.Start(ctx)
}
