package opentofu

import (
	"bytes"
	"encoding/json"
	"slices"

	"service-adapter/internal/engine/statestore"
)

// Progress records the changes of managed resource instances that a run of "apply -json" or "destroy -json" reported:
// whether a change began, and the addresses of the instances that were created, perhaps created, or destroyed. The two
// resources that the adapter adds to every template are left out: the guard (statestore.GuardAddress) is only recorded
// in GuardCreated, and the mark of a complete apply (statestore.CompleteAddress) is not recorded. The zero value stands
// for a run that reported no change.
type Progress struct {
	// Started reports that OpenTofu began to change at least one resource. Reading a data source does not count as a
	// change.
	Started bool
	// GuardCreated reports that OpenTofu began to create the guard, so that the state had none when the run began.
	GuardCreated bool
	// Created are the addresses of the instances whose creation completed.
	Created []string
	// Begun are the addresses of the instances whose creation began and did not complete. They may exist.
	Begun []string
	// Destroyed are the addresses of the instances whose destruction completed and that the run did not create, neither
	// before nor after that. With create_before_destroy, OpenTofu destroys the old object of an address after it has
	// created the new one.
	Destroyed []string
}

// ReadProgress returns the progress of a run from output, its stdout: messages of OpenTofu's -json output, one per
// line. Lines of any other form, such as the last line of a killed run, are ignored, so ReadProgress never fails. An
// empty output yields a zero Progress.
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

// add updates Started, Begun, Created and Destroyed with a message about the resource instance at address. message is
// the type of the message, such as "apply_start", and action is the action of OpenTofu's plan, such as "create". Each
// start of another action than "read" sets Started. The start of a creation adds the address to Begun; its completion
// removes the address from Begun and Destroyed and adds it to Created. The completion of a deletion adds the address to
// Destroyed, unless Created contains it. OpenTofu has then deleted the old object of a resource with
// create_before_destroy, which has the same address in the messages. Other messages and actions are ignored.
func (p *Progress) add(message, action, address string) {
	p.Started = p.Started || message == "apply_start" && action != "read"
	switch {
	case message == "apply_start" && action == "create":
		p.Begun = append(p.Begun, address)
	case message == "apply_complete" && action == "create":
		p.Begun, p.Destroyed = without(p.Begun, address), without(p.Destroyed, address)
		p.Created = append(p.Created, address)
	case message == "apply_complete" && action == "delete" && !slices.Contains(p.Created, address):
		p.Destroyed = append(p.Destroyed, address)
	}
}

// Remaining returns the sorted addresses of the instances that exist or may exist after the run, without duplicates:
// those in before, Created and Begun, except destroyed instances whose creation has not begun again. before contains
// the addresses of the instances that existed before the run; it may be nil and is not changed. The result is empty,
// and may be nil, if no instance remains.
func (p *Progress) Remaining(before []string) []string {
	remaining := slices.Concat(before, p.Created, p.Begun)
	slices.Sort(remaining)
	return slices.DeleteFunc(slices.Compact(remaining), func(address string) bool {
		return slices.Contains(p.Destroyed, address) && !slices.Contains(p.Begun, address)
	})
}

// without removes every occurrence of an address from a list in place and returns the shortened list, which the caller
// must use instead. The list may be nil.
func without(addresses []string, address string) []string {
	return slices.DeleteFunc(addresses, func(other string) bool { return other == address })
}
