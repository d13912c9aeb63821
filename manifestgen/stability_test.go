package manifestgen_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/rogpeppe/go-internal/txtar"
	yamlv2 "gopkg.in/yaml.v2"
	"gopkg.in/yaml.v3"

	"service-adapter/brokerpak"
	"service-adapter/internal/engine/provision"
	"service-adapter/internal/value"
)

// chance generates random plans, requests and values.
type chance struct{ *rand.Rand }

func newChance(seed uint64) chance { return chance{rand.New(rand.NewPCG(seed, 0))} }

// often returns true in three of four cases, and half in one of two.
func (c chance) often() bool { return c.IntN(4) > 0 }
func (c chance) half() bool  { return c.IntN(2) == 0 }

// pick returns one of the items.
func pick[T any](c chance, items ...T) T { return items[c.IntN(len(items))] }

// some returns a random selection of the items, at least one, in their order.
func some(c chance, items ...string) []string {
	var few []string
	for _, item := range items {
		if c.half() {
			few = append(few, item)
		}
	}
	if few == nil {
		return items[:1]
	}
	return few
}

// text returns a random text, mostly one that YAML parsers could read as another type.
func (c chance) text() string {
	return pick(c, "x", "", "y", "No", "010", "1e3", "1_000", "1,000", "1:30", "2026-01-02", "0x1F",
		":symbol", "~", "null", "a: b",
		"# no comment", "two\nlines\n", "\n leading", "trailing \n", "tab\there", "é☃😀", "\u0085\u2028\u0000",
		"'\"`", "- item", "(one)",
		"{a: 1}", "*alias", "&anchor", "!tag", "%", "@", "=", fmt.Sprint(c.IntN(1e9)))
}

// value returns a random value whose lists and mappings are nested at most to the given depth.
func (c chance) value(depth int) any {
	switch kind := c.IntN(8); {
	case kind == 0 && depth > 0:
		return []any{c.value(depth - 1), c.value(depth - 1)}
	case kind == 1 && depth > 0:
		return map[string]any{c.text(): c.value(depth - 1), "k": c.value(depth - 1)}
	case kind == 2:
		return pick[any](c, int64(0), int64(-1), int64(1000000), int64(10240000000), uint64(1<<63))
	case kind == 3:
		return pick(c, 0.5, 1e-7, 123456.789, 1e15+0.5)
	case kind == 4:
		return pick[any](c, true, false, nil)
	default:
		return c.text()
	}
}

// parameters returns random values for some of the inputs. For an update, it omits inputs that must not change, and
// resets some to null.
func (c chance) parameters(inputs []brokerpak.Variable, update bool) map[string]any {
	parameters := map[string]any{}
	for _, input := range inputs {
		wanted := input.Required && !update
		_, formed := input.Constraints["pattern"] // a random text does not match the pattern
		if !wanted && c.often() || input.ProhibitUpdate && update || formed {
			continue
		}
		switch input.Type {
		case "integer":
			parameters[input.Name] = int64(1 + c.IntN(9))
		case "number":
			parameters[input.Name] = pick[any](c, int64(2), 0.25, 1e-7)
		case "boolean":
			parameters[input.Name] = c.half()
		case "object":
			parameters[input.Name] = map[string]any{"b": c.text(), "a": c.value(1)}
		case "string":
			parameters[input.Name] = c.text()
		default:
			parameters[input.Name] = c.value(2)
		}
		if update && !input.Required && c.IntN(5) == 0 {
			parameters[input.Name] = nil
		}
	}
	return parameters
}

// brokerPlan returns a random plan with the instance groups of the service. A nil bosh has none.
func (c chance) brokerPlan(bosh *brokerpak.Bosh) map[string]any {
	groups, errands := []any{}, []any{}
	if bosh == nil {
		bosh = &brokerpak.Bosh{} // OpenTofu creates the whole instance
	}
	for _, group := range bosh.InstanceGroups() {
		if group.Optional && c.half() {
			continue
		}
		instances := 1 + c.IntN(5)
		if group.Name == "redis-server" {
			instances = 1 // the service rejects more
		}
		entry := map[string]any{
			"name": group.Name, "vm_type": pick(c, "small", "large"), "instances": instances,
			"networks": some(c, "n1", "n2", "n3"), "azs": some(c, "z1", "z2", "z3"), "persistent_disk_type": "5GB",
		}
		if group.Lifecycle != "" {
			entry["lifecycle"] = group.Lifecycle
			errands = append(errands, map[string]any{"name": group.Name})
		}
		if c.half() {
			entry["vm_extensions"] = some(c, "e1", "e2")
		}
		if c.half() {
			entry["migrated_from"] = []any{map[string]any{"name": "old"}}
		}
		if group.Name == "broker" {
			delete(entry, "persistent_disk_type") // the template has a disk
			if c.half() {
				errands = append(errands, map[string]any{"name": "smoke", "instances": []any{"broker/0"}})
			}
		}
		groups = append(groups, entry)
	}
	c.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	properties := map[string]any{}
	if c.half() {
		properties["licence"] = pick(c, "a", "b", "")
	}
	plan := map[string]any{
		"instance_groups": groups, "properties": properties,
		"lifecycle_errands": map[string]any{"post_deploy": errands},
	}
	if c.half() {
		plan["update"] = map[string]any{
			"canaries": c.IntN(3), "canary_watch_time": "1-2", "update_watch_time": "1-2",
			"max_in_flight": pick[any](c, 3, "30%"),
		}
	}
	return plan
}

// context returns the context of a request with a random space name.
func (c chance) context() map[string]any {
	return map[string]any{
		"platform": "cloudfoundry", "space_name": c.text(), "organization_guid": "org", "space_guid": "space",
	}
}

// everything writes the given version of the pak in testdata/paks/everything.txtar into a directory and returns the
// directory.
func everything(version int) string {
	GinkgoHelper()
	archive, err := txtar.ParseFile("testdata/paks/everything.txtar")
	Expect(err).NotTo(HaveOccurred())
	files := map[string]string{}
	for _, file := range archive.Files {
		files[file.Name] = strings.ReplaceAll(string(file.Data), "VERSION", fmt.Sprint(version))
	}
	return packed(files)
}

// The broker rejects every update of an instance if the manifest that the adapter generates for its check differs from
// the deployed one.
var _ = Describe("a deployed instance", func() {
	// live deploys an instance and changes it at random. After each deployment, the check must find no changes.
	live := func(w *world, c chance, install func(version int)) {
		w.secure(c.often())
		w.instance.Plan = c.brokerPlan(w.service.Provision.Bosh)
		w.must(call{
			Parameters: c.parameters(w.service.Provision.UserInputs, false), Context: c.context(),
			UAA: map[string]any{"client_id": "one", "client_secret": "s", "name": "n", "scopes": ""},
		})
		w.expectNoPendingChanges()
		for step := range 15 {
			next := call{}
			switch c.IntN(4) {
			case 0: // the operator changes the plan or installs another pak, and upgrades all instances
				w.instance.Plan = grown(w.instance.Plan, c.brokerPlan(w.service.Provision.Bosh))
				next.Upgrade = true
			case 1:
				install(step)
				next.Upgrade = true
				next.Context = pick(c, nil, map[string]any{}, c.context())
			case 2:
				next.Plan = w.service.Plans[c.IntN(len(w.service.Plans))].Name
				next.Context = c.context()
			case 3:
				next.Parameters = c.parameters(w.service.Provision.UserInputs, true)
				next.Context = c.context()
				next.UAA = map[string]any{"client_id": "one", "client_secret": "", "name": ""}
			}
			w.must(next)
			w.expectNoPendingChanges()
		}
		for range 50 {
			w.expectNoPendingChanges()
		}
	}

	for seed := range uint64(6) {
		It(fmt.Sprintf("has no pending changes after random updates of the pak that uses everything, "+
			"seed %d", seed), func() {
			c := newChance(seed)
			w := newWorld(everything(0))
			w.instance.Deployment.Releases = append(w.instance.Deployment.Releases[:0],
				release("everything", "1.0", "broker", "worker", "smoke", "agent"))
			live(w, c, func(version int) { w.install(everything(version)) })
			groups := w.tree()["instance_groups"].([]any)
			index := slices.IndexFunc(groups, func(g any) bool { return g.(map[string]any)["name"] == "broker" })
			broker := groups[index].(map[string]any)
			Expect(broker).To(HaveKeyWithValue("persistent_disk", int64(10240)))
			Expect(broker).To(HaveKeyWithValue("tags", map[string]any{"role": "broker"}))
			Expect(w.tree()["releases"]).To(HaveExactElements(HaveKey("exported_from")))
		})
		for _, pak := range []string{"../spec/parity/pak", "../examples/example-email"} {
			It(fmt.Sprintf("has no pending changes after random updates of %s, seed %d", pak, seed), func() {
				w := newWorld(pak)
				w.generator.Provision = mailbox
				live(w, newChance(seed), func(int) {})
			})
		}
	}
})

// mailbox implements Generator.Provision. It returns the outputs of the template in the example example-email.
func mailbox(_ context.Context, r provision.Request, check bool) (*provision.Result, error) {
	if check {
		return nil, nil
	}
	email := fmt.Sprintf("%v@%v", r.Inputs["username"], r.Inputs["domain"])
	return &provision.Result{Outputs: map[string]any{"email": email}, Changed: true}, nil
}

var _ = Describe("a value in a manifest", func() {
	It("is read back unchanged by each YAML parser", func() {
		w := newWorld(packed(injectionPoints["a whole value"]))
		c := newChance(0)
		for range 400 {
			sent := []any{c.value(3)}
			result, err := w.generate(call{Parameters: map[string]any{"a": sent}})
			Expect(err).NotTo(HaveOccurred())
			for _, unmarshal := range []func([]byte, any) error{
				func(text []byte, target any) error { return yaml.Unmarshal(text, target) },
				func(text []byte, target any) error { return yamlv2.Unmarshal(text, target) },
			} {
				var raw any
				Expect(unmarshal([]byte(result.Manifest), &raw)).To(Succeed())
				Expect(value.Normalise(raw)).To(HaveKeyWithValue("instance_groups", HaveExactElements(
					HaveKeyWithValue("jobs",
						HaveExactElements(HaveKeyWithValue("properties", HaveKeyWithValue("v", sent)))),
				)), result.Manifest)
			}
			Expect(result.Manifest).NotTo(MatchRegexp(`[0-9]e[-+]?[0-9]+$`))
		}
	})
})

// grown returns the plan after, with at least as many instances of each group as in the plan before, because services
// may reject fewer.
func grown(before, after map[string]any) map[string]any {
	for _, item := range after["instance_groups"].([]any) {
		group := item.(map[string]any)
		for _, old := range before["instance_groups"].([]any) {
			if old := old.(map[string]any); old["name"] == group["name"] {
				group["instances"] = max(old["instances"].(int), group["instances"].(int))
			}
		}
	}
	return after
}
