package servers

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account returns the credential of the user whom a Debian package creates for its server. It returns nil if the test
// does not run as root, because the server then runs as the current user. The error means that the user does not exist.
func account(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("looking up the user of the Debian package: %w", err)
	}
	uid, err := strconv.ParseUint(found.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(found.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
