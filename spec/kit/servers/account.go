package servers

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// account returns the user of a Debian package, as whom its server runs; nil when that is who runs the test.
func account(name string) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	found, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("looking for the user of Debian's package: %w", err)
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
