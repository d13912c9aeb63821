package corpus_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"service-adapter/brokerpak"
	"service-adapter/internal/odb"
)

// object is a JSON object.
type object = map[string]any

// A testCase is an instance and two requests for it.
type testCase struct {
	number   int
	random   *rand.Rand
	pak      string
	service  *brokerpak.Service
	instance *odb.Instance
}

// newCase returns the case with a number. A number always has the same case.
func newCase(t *testing.T, number int) testCase {
	c := testCase{number: number, random: rand.New(rand.NewPCG(1, uint64(number)))}
	c.pak, _ = filepath.Abs(choice(c.random, "testdata/pak", "testdata/pak", "../../spec/parity/pak",
		"../../examples/kafka"))
	pak, err := brokerpak.Open(c.pak)
	if err != nil {
		t.Fatal(err)
	}
	defer pak.Close()
	c.service = pak.Services[0]
	plan := &c.service.Plans[c.random.IntN(len(c.service.Plans))]
	c.instance = odb.Sample(c.service, plan, fmt.Sprintf("0b6a9c1e-0000-4c57-9a52-%012d", number))
	plain(t, &c.instance.Plan)
	c.instance.Deployment.Releases[0].Version = choice(c.random, "4.1", "4.1", "4.1", "5.0.1", "5.0.1", "8.2", "8.2",
		"0.9", "latest", "not a version")
	if c.often(4) {
		c.changePlan()
	}
	return c
}

// plain replaces a plan with the result of encoding it to JSON and decoding it.
func plain(t *testing.T, plan *map[string]any) {
	text, err := json.Marshal(*plan)
	if err != nil {
		t.Fatal(err)
	}
	*plan = nil
	if err := json.Unmarshal(text, plan); err != nil {
		t.Fatal(err)
	}
}

// choice returns one of the items at random.
func choice[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// often returns true once in the given number of calls, on average.
func (c testCase) often(times int) bool { return c.random.IntN(times) == 0 }

// environment returns the adapter's configuration as environment variables.
func (c testCase) environment(dir string) map[string]string {
	paks, _ := json.Marshal([]string{c.pak})
	env := map[string]string{
		"SERVICE_ADAPTER_PAKS":             string(paks),
		"SERVICE_ADAPTER_SECURE_MANIFESTS": choice(c.random, "true", "true", "false"),
		"SERVICE_ADAPTER_STATE":            fmt.Sprintf("{config: {dir: %s/state}}", dir),
		"SERVICE_ADAPTER_CACHE_DIR":        dir + "/cache",
	}
	if c.often(5) {
		env["GSB_PROVISION_DEFAULTS"] = choice(c.random, `{"count": 4}`, `{"fast": true}`, `{"maxclients": 77}`, `[]`,
			`{"title": 5}`)
	}
	if env["SERVICE_ADAPTER_SECURE_MANIFESTS"] == "false" {
		// Generated passwords would otherwise be in the manifest, and differ in each run.
		env["SERVICE_ADAPTER_SECURE_MANIFESTS"] = "true"
		env["SERVICE_ADAPTER_ALLOWED_REFERENCES"] = `["/global/ca"]`
	}
	return env
}

// changePlan makes the operator's plan differ from the usual one at random.
func (c testCase) changePlan() {
	properties := c.instance.Plan["properties"].(object)
	groups := c.instance.Plan["instance_groups"].([]any)
	first := groups[0].(object)
	switch c.random.IntN(12) {
	case 0:
		first["instances"] = 3
	case 1:
		delete(first, "persistent_disk_type")
	case 2:
		first["networks"] = []string{"default", "second"}
	case 3:
		first["vm_extensions"] = []string{"public", "large"}
	case 4:
		first["azs"] = []string{}
	case 5:
		first["name"] = "other"
	case 6:
		c.instance.Plan["instance_groups"] = append(groups,
			object{
				"name": "more", "vm_type": "small", "instances": 1, "networks": []string{"n"},
				"azs": []string{"z1"},
			})
	case 7:
		c.instance.Plan["update"] = object{
			"canaries": 2, "max_in_flight": 1, "canary_watch_time": "1-2",
			"update_watch_time": "1-2", "serial": false,
		}
	case 8:
		properties[choice(c.random, c.names()...)] = c.value()
	case 9:
		delete(properties, "brokerpak")
	case 10:
		c.instance.Deployment.Stemcells = nil
	default:
		c.instance.Plan["lifecycle_errands"] = object{"post_deploy": []any{object{
			"name":      "check",
			"instances": []string{first["name"].(string) + "/0"},
		}}}
	}
}

// names returns the names of inputs, and one name that is not an input.
func (c testCase) names() []string {
	names := []string{"typo"}
	for _, input := range c.service.Provision.UserInputs {
		names = append(names, input.Name, input.Name, input.Name)
	}
	for _, input := range c.service.Provision.PlanInputs {
		names = append(names, input.Name)
	}
	return names
}

// value returns any JSON value, usually a simple one.
func (c testCase) value() any {
	return choice[any](c.random, 1, 2, 5, 9, 100, -1, 0.25, 0.75, 1e30, uint64(1)<<63, true, false, nil, "", "text",
		"5", "true", "é😀\n", "a: b",
		"((reference))", "${count}", strings.Repeat("x", 70), "!", []any{}, []any{"a", 1}, []any{[]any{}, object{}},
		object{}, object{"a": "b", "c": 1},
		object{"Upper": nil}, object{"<<": object{}}, "10.0.0.1", "/global/ca", "/global/unknown")
}

// parameters returns parameters of a user, usually few and of the correct types.
func (c testCase) parameters() object {
	all := object{}
	for range c.random.IntN(4) {
		name := choice(c.random, c.names()...)
		if c.often(10) {
			all[name] = c.value()
			continue
		}
		for _, input := range c.service.Provision.UserInputs {
			if input.Name == name {
				all[name] = c.plausible(input)
			}
		}
	}
	return all
}

// plausible returns a value of an input's type.
func (c testCase) plausible(input brokerpak.Variable) any {
	if len(input.Enum) > 0 {
		return choice(c.random, input.Enum...).Value
	}
	switch input.Type {
	case "integer":
		return choice[any](c.random, 1, 2, 4, 7, 9, 1000)
	case "number":
		return choice[any](c.random, 0.25, 1.5, 3)
	case "boolean":
		return c.often(2)
	case "array":
		return choice(c.random, []any{}, []any{"10.0.0.1"}, []any{"a", 1, nil})
	case "object":
		return choice(c.random, object{}, object{"a": "b"}, object{"a": 1, "b": []any{}, "c": object{"d": nil}})
	default:
		return choice[any](c.random, "text", "", "a: b", "é😀", "1", "yes", "two\nlines", "/a/b",
			strings.Repeat("long ", 11))
	}
}

// request returns the first or second request of the case. The second request depends on the answer to the first one.
func (c testCase) request(t *testing.T, step int) (command, stdin string) {
	if step == 1 && c.often(6) {
		c.tamper()
	}
	switch {
	case step == 0 && c.often(25):
		return "generate-plan-schemas", input(t, "generate-plan-schemas", object{"plan": c.instance.Plan})
	case step == 1 && c.often(6):
		plan := c.instance.Plan
		return "dashboard-url", input(t, "dashboard-url",
			object{"instance_id": c.instance.ID, "plan": plan, "manifest": c.instance.Manifest})
	}
	body := object{
		"service_id": c.instance.ServiceID, "plan_id": c.instance.PlanID, "parameters": c.parameters(),
		"context": object{
			"platform": "cloudfoundry", "space_name": choice(c.random, "dev", "dev", "é", "", "((x))"),
			"space_guid": "5-6-7", "organization_guid": "8",
		},
	}
	switch {
	case c.often(8):
		delete(body, "parameters")
	case c.often(20):
		body["parameters"] = c.value()
	case step == 1 && c.often(4):
		body = object{} // the check for pending changes
	}
	parameters := c.instance.Generate(body)
	if !c.often(8) {
		parameters["uaa_client"] = object{"client_id": "id", "client_secret": "a-secret-of-the-client"}
	}
	if step == 1 && c.often(5) {
		parameters["previous_secrets"] = "null"
	}
	stdin = input(t, "generate-manifest", parameters)
	if c.often(100) {
		stdin = choice(c.random, "", "{", "[]", `{"generate_manifest": 5}`, `{"generate_manifest": {"plan": {}}}`,
			stdin[:len(stdin)/2], strings.Replace(stdin, "plan", "Plan", 1))
	}
	return "generate-manifest", stdin
}

// tamper damages or changes the deployed manifest at random.
func (c testCase) tamper() {
	manifest := &c.instance.Manifest
	switch c.random.IntN(6) {
	case 0:
		before, _, _ := strings.Cut(*manifest, "\nbrokerpak:")
		*manifest = before + "\n"
	case 1:
		*manifest = strings.Replace(*manifest, "\nbrokerpak:", "\nbrokerpak: null\nx:", 1)
	case 2:
		*manifest = "a: ["
	case 3:
		*manifest = strings.ReplaceAll(*manifest, "4.1", "8.0")
	case 4:
		clear(c.instance.Secrets)
	default:
		c.instance.Deployment.Releases[0].Version = choice(c.random, "4.0", "5.5")
	}
}
