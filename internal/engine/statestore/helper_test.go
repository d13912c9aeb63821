package statestore_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"service-adapter/internal/engine/statestore"
)

// helperVariable is the environment variable that makes the test binary run as a helper. It contains the kind and the
// address of the backend.
const helperVariable = "STATESTORE_HELPER"

// helper is the main function of a helper process. It runs the task that the arguments name and returns the exit
// status.
func helper() int {
	kind, address, _ := strings.Cut(os.Getenv(helperVariable), " ")
	store, err := backend{kind, address}.store()
	if err == nil {
		err = runTask(store, address, os.Args[1], os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// runTask runs a task of a helper on the workspace b-1.
func runTask(store statestore.Store, address, task string, arguments []string) error {
	ctx := context.Background()
	switch task {
	case "hold":
		return hold(filepath.Join(address, "b-1", "terraform.tfstate"), arguments[0])
	case "create":
		awaitInput()
		err := store.Replace(ctx, "b-1", nil, []byte(arguments[0]))
		fmt.Println(kindOf(err))
		return nil
	case "count":
		return count(ctx, store)
	case "churn":
		return churn(ctx, store, arguments[0])
	case "loop":
		return loop(ctx, store, arguments[0])
	case "limit":
		return limited(ctx, store, arguments)
	}
	return errors.New("unknown task " + task)
}

// awaitInput waits until the spec writes a line to stdin or closes it.
func awaitInput() { bufio.NewScanner(os.Stdin).Scan() }

// kindOf returns a word for the kind of an error: "done" for nil, "changed", "held", or the text of another error.
func kindOf(err error) string {
	var held *statestore.HeldError
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, statestore.ErrChanged):
		return "changed"
	case errors.As(err, &held):
		return "held"
	default:
		return err.Error()
	}
}

// hold holds the lock of a state file as OpenTofu does, with this lock info, until awaitInput returns.
func hold(path, info string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return err
	}
	infoPath := filepath.Join(filepath.Dir(path), ".terraform.tfstate.lock.info")
	if err := os.WriteFile(infoPath, []byte(info), 0o600); err != nil {
		return err
	}
	fmt.Println("held")
	awaitInput()
	return file.Close()
}

// increments is how often count increments the number.
const increments = 25

// count increments the number in a state, and tries again when another process changes it or holds its lock.
func count(ctx context.Context, store statestore.Store) error {
	awaitInput()
	for n := 0; n < increments; {
		before, err := store.Read(ctx, "b-1")
		if err != nil {
			return err
		}
		var number int
		if json.Unmarshal(before, &number) != nil {
			continue // another process is writing the file
		}
		switch err := store.Replace(ctx, "b-1", before, []byte(strconv.Itoa(number+1))); kindOf(err) {
		case "done":
			n++
		case "changed", "held":
		default:
			return err
		}
	}
	return nil
}

// churn creates and deletes the workspace, and prints the number of creations minus the number of deletions.
func churn(ctx context.Context, store statestore.Store, text string) error {
	awaitInput()
	remaining := 0
	for range 200 {
		switch err := store.Replace(ctx, "b-1", nil, []byte(text)); kindOf(err) {
		case "done":
			remaining++
		case "changed", "held":
		default:
			return err
		}
		before, err := store.Read(ctx, "b-1")
		if err != nil {
			return err
		}
		if before == nil {
			continue
		}
		switch err := store.Delete(ctx, "b-1", before); kindOf(err) {
		case "done":
			remaining--
		case "changed", "held":
		default:
			return err
		}
	}
	fmt.Println(remaining)
	return nil
}

// loop creates a state of this size and deletes it, until the process is killed.
func loop(ctx context.Context, store statestore.Store, size string) error {
	n, err := strconv.Atoi(size)
	if err != nil {
		return err
	}
	for text := state("large", n); ; {
		if err := errors.Join(store.Replace(ctx, "b-1", nil, text), store.Delete(ctx, "b-1", text)); err != nil {
			return err
		}
	}
}

// limited creates a state while the size of all files is limited to a number of bytes, as on a full disk. It prints the
// kind of the error.
func limited(ctx context.Context, store statestore.Store, arguments []string) error {
	signal.Ignore(syscall.SIGXFSZ)
	size, err := strconv.ParseUint(arguments[0], 10, 64)
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: size}); err != nil {
		return err
	}
	fmt.Println(kindOf(store.Replace(ctx, "b-1", nil, []byte(arguments[1]))))
	return nil
}
