package adapters_test

import (
	"strings"

	"service-adapter/internal/value"
)

// variants are what the descriptions of the adapters say and no case shows: recorded cases with another input, and the answer that the
// adapter is said to give to that. They are played as cases.
var variants = []struct {
	behaviour, adapter, from string
	change                   func(c *recorded)
	// explained tells that the pak's answer is another one.
	explained bool
}{
	{"parameters are ignored", "hazelcast", "01-create-small", parameters(object{"members": int64(3)}), true},
	{"other groups of the plan are dropped", "hazelcast", "01-create-small", otherGroup, true},
	{"parameters of bindings are ignored", "hazelcast", "15-bind", parameters(object{"role": "reader"}), true},
	{"taking members away is allowed", "hazelcast", "09-update-to-cluster-plan", scaledIn, false},
	{
		"an update without the configuration forgets it", "hazelcast", "09-update-to-cluster-plan", func(c *recorded) {
			parameters(nil)(c)
			set(c.Stdout, hazelcastProperties, object{"hazelcast_xml": "", "group_name": "dev", "group_pass": "dev-pass"})
		}, true,
	},
	{
		"a percent sign in the configuration is garbled", "hazelcast", "03-create-with-hazelcast-xml", func(c *recorded) {
			xml := value.Text(at(c.Stdout, hazelcastProperties+"/hazelcast_xml"))
			parameters(object{"hazelcast_xml": strings.Replace(xml, "/mancenter", "/100%25", 1)})(c)
			set(c.Stdout, hazelcastProperties+"/hazelcast_xml", strings.Replace(xml, "/mancenter", "/100%!<(NOVERB)", 1))
		}, true,
	},
	{
		"a configuration of several lines and groups", "hazelcast", "03-create-with-hazelcast-xml", func(c *recorded) {
			const xml = "<hazelcast>\n <name>n</name>\n <group>\n  <name>a b</name>\n  <password></password>\n </group>\n" +
				" <group><name>c</name><password>d</password></group>\n</hazelcast>\n"
			parameters(object{"hazelcast_xml": xml})(c)
			set(c.Stdout, hazelcastProperties, object{"hazelcast_xml": xml, "group_name": "a b", "group_pass": ""})
		}, false,
	},
	{"an instance without changes whose groups have another order", "hazelcast", "07-create-mancenter-first", updated, true},
	{"unbinding does nothing", "hazelcast", "15-bind", unbound, false},
	{"unbinding without VMs does nothing", "hazelcast", "17-bind-no-vms", unbound, false},

	{"passwords stay, where that adapter makes them anew", "concourse", "01-create-small", updated, false},
	{"networks of which none is the default stay", "concourse", "05-update-to-large", updated, false},
	{"disks and lifecycles of the plan are ignored in updates, too", "concourse", "07-create-worker-disk-ignored", updated, true},
	{
		"a plan without an update block", "concourse", "01-create-small", func(c *recorded) {
			delete(c.Input["plan"].(object), "update")
			set(c.Stdout, "/update", object{
				"canaries": int64(4), "max_in_flight": int64(4), "canary_watch_time": "30000-240000", "update_watch_time": "30000-240000",
			})
		}, false,
	},
	{"other groups of the plan are dropped", "concourse", "01-create-small", otherGroup, true},
	{
		"it panics for a job of web that no release has", "concourse", "01-create-small", func(c *recorded) {
			set(c.Input["service_deployment"], "/releases/2/jobs", []any{"other"})
			c.Exit, c.Stdout, c.Stderr = 2, "", "panic: runtime error: index out of range"
		}, true,
	},
	{
		"it panics without the deployment that has NATS", "concourse", "01-create-small", func(c *recorded) {
			delete(at(c.Input, "/plan/properties").(object), "cf_deployment")
			c.Exit, c.Stdout, c.Stderr = 2, "", "panic: interface conversion: interface {} is nil, not string"
		}, true,
	},
	{"bindings need no VMs", "concourse", "15-bind", withoutVMs, false},
	{"parameters of bindings are ignored", "concourse", "15-bind", parameters(object{"team": "main"}), true},
	{"unbinding needs no VMs", "concourse", "17-unbind", withoutVMs, false},
	{
		"there is no dashboard", "concourse", "15-bind", func(c *recorded) {
			c.Command, c.Exit, c.Stdout, c.Stderr = "dashboard-url", notImplemented, "", ""
			c.Input["instance_id"], c.Input["plan"] = "abcd", caseOf("concourse", "01-create-small").Input["plan"]
		}, false,
	},
}

const hazelcastProperties = "/instance_groups/0/jobs/0/properties/hazelcast"

// otherGroup gives the plan a group that the service does not have.
func otherGroup(c *recorded) {
	plan := c.Input["plan"].(object)
	plan["instance_groups"] = append(plan["instance_groups"].([]any), object{
		"name": "other", "vm_type": "small", "instances": int64(1), "networks": []any{"default"}, "azs": []any{"z1"},
	})
}

// updated makes a case an update of what it made, which changes nothing.
func updated(c *recorded) {
	c.Input["previous_plan"], c.Input["previous_manifest"] = c.Input["plan"], c.Stdout
}

// unbound makes a binding's creation its deletion.
func unbound(c *recorded) {
	c.Command, c.Exit, c.Stdout = "delete-binding", 0, ""
}

func withoutVMs(c *recorded) { c.Input["bosh_vms"] = object{} }

// scaledIn gives the deployed instance more VMs of its first group.
func scaledIn(c *recorded) {
	for _, from := range []string{"previous_plan", "previous_manifest"} {
		set(c.Input[from], "/instance_groups/0/instances", int64(5))
	}
}

// set replaces what a tree has at a JSON pointer.
func set(tree any, pointer string, item any) {
	end := strings.LastIndex(pointer, "/")
	at(tree, pointer[:end]).(object)[pointer[end+1:]] = item
}
