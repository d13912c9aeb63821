package paktest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
)

// Result is the outcome of one case.
type Result struct {
	Case Case
	// Outcomes are what the steps gave, as far as they were played: sections as in an expectation.
	Outcomes []map[string]any
	Err      error
	Took     time.Duration
}

// Suite plays the cases of a pak.
type Suite struct {
	Pak    *brokerpak.Pak
	Getenv func(name string) (string, bool)
	// Parallel is how many cases are played at once; at least 1.
	Parallel int
	// Done is called for each case when it has ended, in any order but never twice at once.
	Done func(Result)
	// Created, unless it is nil, is called with each instance that a case created, and with the environment of the adapter, and nothing
	// more is played.
	Created func(testCase Case, instance *odb.Instance, getenv func(name string) (string, bool))
}

// Play plays the cases in a directory that it removes, and returns the results in the order of the cases.
func (s Suite) Play(ctx context.Context, cases []Case) (results []Result, err error) {
	dir, err := os.MkdirTemp("", "pak-test-")
	if err != nil {
		return nil, fmt.Errorf("making a directory for the test: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	results = make([]Result, len(cases))
	var group errgroup.Group
	group.SetLimit(max(s.Parallel, 1))
	var mutex sync.Mutex
	for i, testCase := range cases {
		group.Go(func() error {
			began := time.Now()
			// Each case has directories of its own: runs of one workspace name would wait for each other.
			outcomes, err := s.playOne(ctx, testCase, filepath.Join(dir, strconv.Itoa(i)))
			mutex.Lock()
			defer mutex.Unlock()
			results[i] = Result{Case: testCase, Outcomes: outcomes, Err: err, Took: time.Since(began)}
			s.Done(results[i])
			return nil
		})
	}
	_ = group.Wait() // failures are results
	return results, nil
}
