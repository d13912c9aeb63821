package statestore

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/user"
)

// Who is how OpenTofu names this user and host in its locks: user@host.
func Who() string {
	name := ""
	if account, err := user.Current(); err == nil {
		name = account.Username
	}
	host, _ := os.Hostname() // "" with an error
	return name + "@" + host
}

// NewID makes a random id of the form that OpenTofu gives to locks, lineages and resources.
func NewID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // it never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
