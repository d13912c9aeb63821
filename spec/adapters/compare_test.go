package adapters_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	older "gopkg.in/yaml.v2"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
	binary "service-adapter/spec/kit/broker"
)

// A difference is a path at which two answers differ. A value is the text absent if one of the answers lacks the path.
type difference struct{ path, theirs, ours string }

// notImplemented is the exit code of a command that an adapter does not implement.
const notImplemented = 10

// absent stands for the value of an answer that lacks the path of a difference.
const absent = "(absent)"

// String returns the path and both values.
func (d difference) String() string {
	return fmt.Sprintf("%s: there %s, here %s", d.path, d.theirs, d.ours)
}

// differences returns all paths at which two trees differ, as sorted JSON pointers. If two lists contain items with the
// same names in a different order, the order is one difference, and the items with the same name are compared with each
// other.
func differences(path string, theirs, ours any) []difference {
	switch a := theirs.(type) {
	case object:
		if b, ok := ours.(object); ok {
			var all []difference
			for _, key := range value.Keys(value.Merge(a, b)) {
				all = append(all, child(path+"/"+key, a, b, key)...)
			}
			return all
		}
	case []any:
		if b, ok := ours.([]any); ok {
			b, all := reordered(path, a, b)
			for i := range max(len(a), len(b)) {
				all = append(all, child(fmt.Sprintf("%s/%d", path, i), indexed(a), indexed(b), fmt.Sprint(i))...)
			}
			return all
		}
	}
	if reflect.DeepEqual(theirs, ours) {
		return nil
	}
	return []difference{{path, shown(theirs), shown(ours)}}
}

// reordered returns the items of ours in the order of theirs if both have the same names, and the difference in the
// order.
func reordered(path string, theirs, ours []any) ([]any, []difference) {
	there, here := names(theirs), names(ours)
	if there == nil || slices.Equal(there, here) ||
		!slices.Equal(slices.Sorted(slices.Values(there)), slices.Sorted(slices.Values(here))) {
		return ours, nil
	}
	sorted := make([]any, len(ours))
	for i, name := range there {
		sorted[i] = ours[slices.Index(here, name)]
	}
	return sorted, []difference{{path, shown(there), shown(here)}}
}

// names returns the names of the items of a list. It returns nil if an item has no name.
func names(list []any) []string {
	var all []string
	for _, item := range list {
		thing, _ := item.(object)
		if thing["name"] == nil {
			return nil
		}
		all = append(all, value.Text(thing["name"]))
	}
	return all
}

// child returns the differences between the values of a key, which at most one of the objects lacks.
func child(path string, theirs, ours object, key string) []difference {
	a, there := theirs[key]
	b, here := ours[key]
	switch {
	case !there:
		return []difference{{path, absent, shown(b)}}
	case !here:
		return []difference{{path, shown(a), absent}}
	default:
		return differences(path, a, b)
	}
}

// indexed returns a list as an object, with the indexes as keys.
func indexed(list []any) object {
	all := object{}
	for i, item := range list {
		all[fmt.Sprint(i)] = item
	}
	return all
}

// shown returns a value as JSON.
func shown(item any) string { return string(value.MustJSON(item)) }

// yamlOf encodes a value as YAML with yaml.v2, whose tags the SDK's structs have.
func yamlOf(item any) (string, error) {
	text, err := older.Marshal(item)
	return string(text), err
}

// compare plays a case and returns all differences except those of random values.
func (p *player) compare(ctx context.Context) []difference {
	GinkgoHelper()
	got := p.play(ctx)
	if (got.Exit == 0) == p.refused() {
		ours := fmt.Sprint(got.Exit)
		if got.Exit != 0 {
			ours += ": " + said(got)
		}
		return []difference{{"/exit", fmt.Sprint(p.Exit), ours}}
	}
	all := differences("/exit", int64(p.Exit), int64(got.Exit))
	all = append(all, differences("/commands", anyOf(p.Commands), p.calls())...)
	all = append(all, differences("/mongodb_commands", p.Told, p.receivedHere())...)
	all = append(all, p.comparePools()...)
	switch {
	case p.Exit == notImplemented && got.Exit == notImplemented: // both exit codes mean the same
	case p.refused():
		p.expectReason(got)
		ours := strings.TrimSpace(got.Stdout)
		if theirs := value.Text(p.Stdout); theirs != "" && theirs != ours {
			all = append(all, difference{"/user", theirs, ours})
		}
	case p.Command == "generate-manifest":
		all = append(all, p.compareManifests(ctx, got)...)
	default:
		all = append(all, differences("/stdout", emptied(p.Stdout), answered(got.Stdout))...)
	}
	return slices.DeleteFunc(all, func(d difference) bool { return slices.Contains(p.RandomPaths, d.path) })
}

// anyOf converts texts to a list of values.
func anyOf(texts []string) []any {
	all := make([]any, len(texts))
	for i, text := range texts {
		all[i] = text
	}
	return all
}

// emptied returns an answer. An empty answer becomes an empty object, because both are equal for the broker.
func emptied(answer any) any {
	if answer == "" || answer == nil {
		return object{}
	}
	return answer
}

// answered decodes standard output. An empty output becomes an empty object.
func answered(stdout string) any {
	GinkgoHelper()
	if strings.TrimSpace(stdout) == "" {
		return object{}
	}
	tree, err := value.DecodeJSON([]byte(stdout))
	Expect(err).NotTo(HaveOccurred())
	return tree
}

// compareManifests compares manifests as trees, and as the broker does before an update. The manifest that the pak
// generated must have no pending changes.
func (p *player) compareManifests(ctx context.Context, got binary.Answer) []difference {
	GinkgoHelper()
	ours := manifestOf(got.Stdout)
	tree := treeOf(ours)
	theirs, err := yamlOf(p.Stdout)
	Expect(err).NotTo(HaveOccurred())
	all := differences("/stdout", p.Stdout, tree)
	for _, d := range differences("/stdout", compared(theirs), compared(ours)) {
		if !slices.ContainsFunc(all, func(known difference) bool { return known.path == d.path }) {
			all = append(all, d)
		}
	}
	p.expectSameRandom(tree)
	same, err := odb.SameManifests(ours, p.pending(ctx, p.Input["plan"], ours))
	Expect(err).NotTo(HaveOccurred())
	Expect(same).To(BeTrue(), "the manifest that the pak generated has pending changes")
	return all
}

// expectSameRandom asserts that a random value which the other adapter uses at several paths is a single value of the
// same form in ours too. Values of the deployed manifest must be kept.
func (p *player) expectSameRandom(tree any) {
	GinkgoHelper()
	ourValues := map[any]any{}
	for _, path := range p.RandomPaths {
		theirs, ours := at(object{"stdout": p.Stdout}, path), at(object{"stdout": tree}, path)
		if kept := at(object{"stdout": p.Input["previous_manifest"]}, path); kept != nil {
			Expect(ours).To(Equal(kept), path)
			continue
		}
		Expect(ours).To(HaveLen(len(value.Text(theirs))), path)
		Expect(ours).To(MatchRegexp("^[A-Za-z0-9]+$"), path)
		if ourValues[theirs] == nil {
			ourValues[theirs] = ours
		}
		Expect(ours).To(Equal(ourValues[theirs]), path)
	}
}

// at returns the value at a JSON pointer. It returns nil if the tree lacks the path.
func at(tree any, pointer string) any {
	for _, key := range strings.Split(pointer, "/")[1:] {
		if list, ok := tree.([]any); ok {
			tree = indexed(list)
		}
		object, _ := tree.(object)
		tree = object[key]
	}
	return tree
}

// comparePending makes the broker's check for pending changes with the manifest that the other adapter deployed.
func (p *player) comparePending(ctx context.Context) []difference {
	GinkgoHelper()
	deployed := p.text("previous_manifest")
	if deployed == "" {
		return nil
	}
	return differences("/pending", compared(deployed), compared(p.pending(ctx, p.Input["previous_plan"], deployed)))
}

// said returns the messages of a rejected request for the user and the operator.
func said(got binary.Answer) string { return strings.ReplaceAll(got.Stdout+"\n"+got.Stderr, `\"`, `"`) }

// expectReason asserts that both adapters reject the request for the same reason.
func (p *player) expectReason(got binary.Answer) {
	GinkgoHelper()
	said := said(got)
	if p.clientFailed() {
		if p.Exit == 1 {
			Expect(said).To(ContainSubstring(p.failure()))
		}
		return // the exit code is compared elsewhere
	}
	theirs, found := p.Stderr+"\n"+value.Text(p.Stdout), false
	for i := range refusals {
		row := &refusals[i]
		for _, pair := range row.pairs {
			pattern := regexp.MustCompile(pair.theirs)
			match := pattern.FindStringSubmatchIndex(theirs)
			if row.adapter != "" && row.adapter != p.Adapter || match == nil {
				continue
			}
			Expect(said).To(MatchRegexp(string(pattern.ExpandString(nil, pair.ours, theirs, match))),
				"where the other adapter says: %s", theirs)
			row.used, found = true, true
		}
	}
	Expect(found).To(BeTrue(), "no row of refusals matches the message here for that of the other adapter: %s", theirs)
}
