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

	"service-adapter/internal/statestore"
)

// helperVariable makes the test binary a helper: it holds the place.
const helperVariable = "STATESTORE_HELPER"

// helper does in another process what its arguments say. The workspace is always b-1.
func helper() int {
	kind, where, _ := strings.Cut(os.Getenv(helperVariable), " ")
	store, err := place{kind, where}.store()
	if err == nil {
		err = help(store, where, os.Args[1], os.Args[2:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func help(store statestore.Store, where, task string, arguments []string) error {
	ctx := context.Background()
	switch task {
	case "hold":
		return hold(filepath.Join(where, "b-1", "terraform.tfstate"), arguments[0])
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

func awaitInput() { bufio.NewScanner(os.Stdin).Scan() }

// kindOf is the kind of an error in a word.
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

// hold holds the lock of a state file as OpenTofu does, with a note about itself.
func hold(path, info string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK}); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), ".terraform.tfstate.lock.info"), []byte(info), 0o600); err != nil {
		return err
	}
	fmt.Println("held")
	awaitInput()
	return file.Close()
}

// counts is how often count counts.
const counts = 25

// count adds to the number in a state.
func count(ctx context.Context, store statestore.Store) error {
	awaitInput()
	for n := 0; n < counts; {
		before, err := store.Read(ctx, "b-1")
		if err != nil {
			return err
		}
		var number int
		if json.Unmarshal(before, &number) != nil {
			continue // It is being written.
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

// churn makes and removes the workspace as often as it can, and tells the difference.
func churn(ctx context.Context, store statestore.Store, text string) error {
	awaitInput()
	made := 0
	for range 200 {
		switch err := store.Replace(ctx, "b-1", nil, []byte(text)); kindOf(err) {
		case "done":
			made++
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
			made--
		case "changed", "held":
		default:
			return err
		}
	}
	fmt.Println(made)
	return nil
}

// loop makes a state of this size and deletes it, until it is killed.
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

// limited makes a state, with all files limited in size as on a disk that is full.
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
