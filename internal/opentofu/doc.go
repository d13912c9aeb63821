// Package opentofu runs OpenTofu and reads what it says: which files an installation consists of, how a run is started, waited for and
// interrupted, and what its diagnostics and its words about locks and encryption mean. It knows nothing of workspaces, and is with
// the packages below it the only one that starts processes.
//
// A run is not tied to the life of this process: its output goes to files, and when this process is killed OpenTofu goes on and saves its
// state.
package opentofu
