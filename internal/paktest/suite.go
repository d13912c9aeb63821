package paktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"service-adapter/brokerpak"
)

// Result is the outcome of one case.
type Result struct {
	Case    Case
	Outcome Expectation
	Err     error
	Took    time.Duration
}

// Suite plays the cases of a pak.
type Suite struct {
	Pak    *brokerpak.Pak
	Getenv func(name string) (string, bool)
	// Parallel is how many cases are played at once; at least 1.
	Parallel int
	// Done is called for each case when it has ended, in any order but never twice at once.
	Done func(Result)
}

// Play plays the cases in a directory that it removes, and returns the results in the order of the cases.
func (s Suite) Play(ctx context.Context, cases []Case) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "pak-test-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the test: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	results = make([]Result, len(cases))
	slots := make(chan struct{}, max(s.Parallel, 1))
	var running sync.WaitGroup
	var mutex sync.Mutex
	for i, testCase := range cases {
		slots <- struct{}{}
		running.Add(1)
		go func() {
			defer func() { <-slots; running.Done() }()
			results[i] = s.playOne(ctx, testCase, dir, i)
			mutex.Lock()
			defer mutex.Unlock()
			s.Done(results[i])
		}()
	}
	running.Wait()
	return results, nil
}

func (s Suite) playOne(ctx context.Context, testCase Case, dir string, number int) Result {
	began := time.Now()
	// Each case has a cache of its own: runs of one workspace name would wait for each other.
	player := Player{
		Pak: s.Pak, StateDir: filepath.Join(dir, fmt.Sprintf("state-%d", number)),
		CacheDir: filepath.Join(dir, fmt.Sprintf("cache-%d", number)), Getenv: s.Getenv,
	}
	outcome, err := player.Play(ctx, testCase)
	return Result{Case: testCase, Outcome: outcome, Err: err, Took: time.Since(began)}
}
