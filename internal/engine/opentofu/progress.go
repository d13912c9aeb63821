package opentofu

import (
	"bytes"
	"encoding/json"
	"slices"

	"service-adapter/internal/engine/statestore"
)

// Progress is what a run of "apply -json" or "destroy -json" reported about managed resource instances. The guard and
// the mark of a complete apply, which the adapter adds to every template, are not part of it.
type Progress struct {
	// Started reports that OpenTofu began to change at least one resource. Reading a data source does not count as a
	// change.
	Started bool
	// GuardCreated reports that OpenTofu created the guard, so that the state had none when the run began.
	GuardCreated bool
	// Created are the addresses of the instances whose creation completed and that were not destroyed afterwards.
	Created []string
	// Begun are the addresses of the instances whose creation began and did not complete. They may exist.
	Begun []string
	// Destroyed are the addresses of the instances whose destruction completed and that were not created again.
	Destroyed []string
}

// ReadProgress returns the progress of a run from its stdout: messages of OpenTofu's -json output, one per line. Lines
// of any other form are ignored, so that the output of a killed run can be read.
func ReadProgress(output []byte) Progress {
	var p Progress
	for line := range bytes.Lines(output) {
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		switch address := m.Hook.Resource.Address; address {
		case statestore.GuardAddress:
			p.GuardCreated = p.GuardCreated || m.Type == "apply_start" && m.Hook.Action == "create"
		case "", statestore.CompleteAddress:
		default:
			p.add(m.Type, m.Hook.Action, address)
		}
	}
	return p
}

// add updates Started, Begun, Created and Destroyed with a message about a resource instance. message is the type of
// the message, such as "apply_start", and action the action of OpenTofu's plan, such as "create". Each start of another
// action than "read" sets Started. Messages and actions that affect none of these fields are ignored.
func (p *Progress) add(message, action, address string) {
	p.Started = p.Started || message == "apply_start" && action != "read"
	switch {
	case message == "apply_start" && action == "create":
		p.Begun = append(p.Begun, address)
	case message == "apply_complete" && action == "create":
		p.Begun, p.Destroyed = without(p.Begun, address), without(p.Destroyed, address)
		p.Created = append(p.Created, address)
	case message == "apply_complete" && action == "delete":
		p.Created = without(p.Created, address)
		p.Destroyed = append(p.Destroyed, address)
	}
}

// Remaining returns the sorted addresses of the instances that exist or may exist after the run. before contains the
// addresses of those that existed before the run, and may be nil.
func (p *Progress) Remaining(before []string) []string {
	remaining := slices.Concat(before, p.Created, p.Begun)
	slices.Sort(remaining)
	return slices.DeleteFunc(slices.Compact(remaining), func(address string) bool {
		return slices.Contains(p.Destroyed, address) && !slices.Contains(p.Begun, address)
	})
}

// without removes every occurrence of an address from a list in place and returns the shortened list.
func without(addresses []string, address string) []string {
	return slices.DeleteFunc(addresses, func(other string) bool { return other == address })
}
