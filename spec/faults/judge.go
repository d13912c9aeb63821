package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/gomega" //nolint:staticcheck // gomega is designed for dot imports

	"service-adapter/internal/engine/lifecycle"
	"service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/process"
)

// A resource is a resource that exists outside of OpenTofu.
type resource struct{ owner, address, file string }

// String returns the owner and the address of the resource.
func (r resource) String() string { return r.owner + " " + r.address }

// addresses returns the addresses of the resources by the suffixes of their files' names.
func addresses() map[string]string {
	return map[string]string{
		"-account": "directory_entry.account", "-account-grant": "directory_entry.grant",
		"-session": "terraform_data.session",
		"-data":    "directory_entry.data", "-data-access": "directory_entry.access",
	}
}

// live returns the existing resources.
func (t *trial) live() []resource {
	entries, err := os.ReadDir(t.entries)
	Expect(err).NotTo(HaveOccurred())
	var all []resource
	for _, entry := range entries {
		owners := []string{t.binding}
		if t.instance != nil {
			owners = append(owners, t.instance.ID)
		}
		for _, owner := range owners {
			if end, ok := strings.CutPrefix(entry.Name(), owner); ok && addresses()[end] != "" {
				all = append(all, resource{owner, addresses()[end], filepath.Join(t.entries, entry.Name())})
			}
		}
	}
	return all
}

// unnamed returns those resources whose address is neither in the messages nor in an audit log.
func (t *trial) unnamed(resources []resource, messages string) []resource {
	for _, m := range t.machines() {
		text, err := os.ReadFile(m.auditLog())
		if err != nil && !os.IsNotExist(err) {
			Expect(err).NotTo(HaveOccurred())
		}
		messages += string(text)
	}
	return slices.DeleteFunc(resources, func(r resource) bool { return strings.Contains(messages, r.address) })
}

// judgeLost looks for resources that neither a state nor a message nor an audit log names.
func (t *trial) judgeLost(unfinishedAccounts bool) {
	if t.lost != "" {
		return
	}
	stored := t.stored()
	missing := slices.DeleteFunc(t.unnamed(t.live(), t.said.String()), func(r resource) bool {
		entry, ok := stored[r.owner]
		unfinished := entry.Condition != lifecycle.Complete && entry.Condition != lifecycle.Deleting
		return ok && (slices.Contains(entry.Resources, r.address) || unfinishedAccounts && unfinished)
	})
	if len(missing) > 0 {
		t.lost = fmt.Sprintf("lost %v", missing)
		t.note(t.lost)
	}
}

// stored returns the entries of the lists of bindings and instances by id.
func (t *trial) stored() map[string]lifecycle.Entry {
	all := map[string]lifecycle.Entry{}
	for _, group := range []string{"bindings", "instance"} {
		running := t.observer.begin("", group, "list", "--json")
		got := running.Wait()
		Expect(got.Exit).To(BeElementOf(0, 1), got.Stderr)
		var document map[string]json.RawMessage
		Expect(json.Unmarshal([]byte(got.Stdout), &document)).To(Succeed())
		var entries []lifecycle.Entry
		Expect(json.Unmarshal(document[strings.TrimSuffix(group, "s")+"s"], &entries)).To(Succeed())
		for _, entry := range entries {
			all[entry.ID] = entry
		}
	}
	return all
}

// tries is the number of times that an unbind or a destruction is repeated.
const tries = 3

// recover deletes the binding and the instance as the broker does, and judges the remaining resources.
func (t *trial) recover(a action) {
	if t.bound && !a.destroys {
		t.delete(t.binding, t.unbind)
	}
	if t.instance.ServiceID == providedService {
		t.delete(t.instance.ID, t.destroy)
	}
	if left := t.unnamed(t.live(), t.failed.String()); len(left) > 0 && t.forgotten == "" && t.stuck == "" {
		t.forgotten = fmt.Sprintf("forgotten %v", left)
		t.note(t.forgotten)
	}
	t.bound = false
}

// delete repeats a deletion until it succeeds, and then runs the command that a message names.
func (t *trial) delete(owner string, begin func() *process.Running) {
	var got broker.Answer
	for try := range tries + 1 {
		t.releaseLocks()
		got = t.wait(begin())
		if got.Exit == 0 || got.Exit == 41 {
			t.judgeForgotten(owner, got)
			return
		}
		if try == tries-1 && !t.obey(owner, got) {
			break
		}
	}
	if t.stuck == "" {
		t.stuck = fmt.Sprintf("stuck: %s cannot be deleted: %s", owner, firstError(got.Stderr))
		t.note(t.stuck)
	}
}

// judgeForgotten looks for resources that remain after a successful deletion.
func (t *trial) judgeForgotten(owner string, got broker.Answer) {
	t.settle()
	left := slices.DeleteFunc(t.live(), func(r resource) bool { return r.owner != owner })
	if left = t.unnamed(left, t.failed.String()+got.Stderr); len(left) > 0 && t.forgotten == "" {
		t.forgotten = fmt.Sprintf("forgotten after exit %d: %v", got.Exit, left)
		t.note(t.forgotten)
	}
}

// named matches a command in a message.
var named = regexp.MustCompile(`service-adapter ((?:bindings delete|instance destroy) \S+ --forget)`)

// obey follows the instructions of a message: it removes the resources that the message names, and runs the command in
// the message. It reports whether the message contained a command.
func (t *trial) obey(owner string, got broker.Answer) bool {
	command := named.FindStringSubmatch(got.Stderr)
	if command == nil {
		return false
	}
	for _, r := range t.live() {
		if r.owner == owner && strings.Contains(got.Stderr, r.address) {
			Expect(os.Remove(r.file)).To(Succeed())
		}
	}
	return t.wait(t.broker.begin("", strings.Fields(command[1])...)).Exit == 0
}

// findings returns the texts of the findings of the trial.
func (t *trial) findings() []string {
	return slices.DeleteFunc([]string{t.lost, t.forgotten, t.stuck}, func(text string) bool { return text == "" })
}

// firstError returns the line of a log with the reason of a failure, or the first line of any other text.
func firstError(stderr string) string {
	for line := range strings.Lines(stderr) {
		if _, text, ok := strings.Cut(line, "level=ERROR "); ok {
			return strings.TrimSpace(text)
		}
	}
	line, _, _ := strings.Cut(stderr, "\n")
	return line
}
