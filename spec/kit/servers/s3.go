package servers

import (
	"context"
	"crypto/rand"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// S3Version is the version of versitygw, the S3 server.
const S3Version = "1.8.0"

// S3 starts an S3 server that keeps its buckets as directories below dir/buckets, and their objects as files in these
// directories. The error is an ErrMissing if versitygw is not installed.
func S3(ctx context.Context, dir string) (*Server, error) {
	binary, err := tool("versitygw", S3Version, "versitygw")
	if err != nil {
		return nil, err
	}
	port, err := freePort(ctx)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"buckets", "metadata"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	s := &Server{
		Host: "127.0.0.1", Port: port, User: "admin-" + rand.Text(), Password: rand.Text(), Dir: dir,
		log: filepath.Join(dir, "log"), stop: syscall.SIGTERM,
	}
	s.command = func() *exec.Cmd {
		// With a directory for metadata, the server needs no extended attributes of the file system.
		cmd := exec.Command(binary, "--port", s.Address(), "--quiet", "posix", "--sidecar",
			filepath.Join(dir, "metadata"),
			filepath.Join(dir, "buckets"))
		cmd.Env = []string{"ROOT_ACCESS_KEY_ID=" + s.User, "ROOT_SECRET_ACCESS_KEY=" + s.Password, "HOME=" + dir}
		cmd.Dir = dir
		return cmd
	}
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// URL returns the HTTP address of the server.
func (s *Server) URL() string { return "http://" + s.Address() }

// CreateBucket creates an empty bucket of S3 or of Google's storage. It returns an error if the bucket exists.
func (s *Server) CreateBucket(name string) error {
	return os.Mkdir(filepath.Join(s.Dir, "buckets", name), 0o700)
}

// Objects returns the sorted keys of the objects in a bucket of S3 or of Google's storage. It returns an error if the
// bucket does not exist.
func (s *Server) Objects(bucket string) ([]string, error) {
	var keys []string
	dir := filepath.Join(s.Dir, "buckets", bucket)
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		key, err := filepath.Rel(dir, path)
		keys = append(keys, key)
		return err
	})
	return keys, err
}
