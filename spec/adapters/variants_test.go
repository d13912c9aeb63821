package adapters_test

import (
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/value"
)

// variants contains behaviours from the descriptions of the adapters that no recorded case shows: recorded cases with
// another input, and the adapter's answer according to its description. They are played like cases.
var variants = []struct {
	behaviour, adapter, from string
	change                   func(c *recorded)
	// explained is true if the pak's answer differs.
	explained bool
}{
	{"parameters are ignored", "hazelcast", "01-create-small", parameters(object{"members": int64(3)}), true},
	{"other groups of the plan are dropped", "hazelcast", "01-create-small", otherGroup, true},
	{"parameters of bindings are ignored", "hazelcast", "15-bind", parameters(object{"role": "reader"}), true},
	{"taking members away is allowed", "hazelcast", "09-update-to-cluster-plan", scaledIn, false},
	{
		"an update without the configuration forgets it", "hazelcast", "09-update-to-cluster-plan", func(c *recorded) {
			parameters(nil)(c)
			set(c.Stdout, hazelcastProperties,
				object{"hazelcast_xml": "", "group_name": "dev", "group_pass": "dev-pass"})
		}, true,
	},
	{
		"a percent sign in the configuration is garbled", "hazelcast", "03-create-with-hazelcast-xml", func(
			c *recorded,
		) {
			xml := value.Text(at(c.Stdout, hazelcastProperties+"/hazelcast_xml"))
			parameters(object{"hazelcast_xml": strings.Replace(xml, "/mancenter", "/100%25", 1)})(c)
			set(c.Stdout, hazelcastProperties+"/hazelcast_xml",
				strings.Replace(xml, "/mancenter", "/100%!<(NOVERB)", 1))
		}, true,
	},
	{
		"a configuration of several lines and groups", "hazelcast", "03-create-with-hazelcast-xml", func(c *recorded) {
			const xml = "<hazelcast>\n <name>n</name>\n <group>\n  <name>a b</name>\n  <password></password>\n" +
				" </group>\n" +
				" <group><name>c</name><password>d</password></group>\n</hazelcast>\n"
			parameters(object{"hazelcast_xml": xml})(c)
			set(c.Stdout, hazelcastProperties, object{"hazelcast_xml": xml, "group_name": "a b", "group_pass": ""})
		}, false,
	},
	{
		"an instance without changes whose groups have another order", "hazelcast", "07-create-mancenter-first",
		updated,
		true,
	},
	{"unbinding does nothing", "hazelcast", "15-bind", unbound, false},
	{"unbinding without VMs does nothing", "hazelcast", "17-bind-no-vms", unbound, false},

	{"passwords stay, where that adapter makes them anew", "concourse", "01-create-small", updated, false},
	{"networks of which none is the default stay", "concourse", "05-update-to-large", updated, false},
	{
		"disks and lifecycles of the plan are ignored in updates, too", "concourse", "07-create-worker-disk-ignored",
		updated, true,
	},
	{
		"a plan without an update block", "concourse", "01-create-small", func(c *recorded) {
			delete(c.Input["plan"].(object), "update")
			set(c.Stdout, "/update", object{
				"canaries": int64(4), "max_in_flight": int64(4), "canary_watch_time": "30000-240000",
				"update_watch_time": "30000-240000",
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

	{"numbers that stay, and no parameter", "mongodb", "05-create-sharded-with-parameters", updated, false},
	{
		"a standalone server has no backups", "mongodb", "01-create-standalone",
		parameters(object{"backup_enabled": true}), false,
	},
	{
		"a cluster without parameters", "mongodb", "05-create-sharded-with-parameters", func(c *recorded) {
			parameters(nil)(c)
			set(c.Stdout, "/instance_groups/0/instances", int64(11))
			set(c.Stdout, agentProperties+"/shards", int64(2))
			set(c.Stdout, agentProperties+"/engine_version", "4.0.2")
			for _, properties := range []string{agentProperties, mongoProperties} {
				set(c.Stdout, properties+"/replicas", int64(3))
				set(c.Stdout, properties+"/config_servers", int64(3))
				set(c.Stdout, properties+"/routers", int64(2))
			}
		}, false,
	},
	{
		"TLS, and a syslog address", "mongodb", "03-create-replica-set-five", func(c *recorded) {
			at(c.request(), "/parameters").(object)["ssl_enabled"] = true
			set(c.Input["plan"], "/properties/syslog/address", "10.0.0.9")
			set(c.Stdout, "/properties/syslog/address", "10.0.0.9")
			set(c.Stdout, agentProperties+"/require_ssl", true)
			set(c.Stdout, mongoProperties+"/require_ssl", true)
			for _, jobs := range []string{"/instance_groups/0/jobs", "/instance_groups/1/jobs"} {
				list := at(c.Stdout, jobs).([]any)
				bpm := slices.IndexFunc(list, func(job any) bool { return at(job, "/name") == "bpm" })
				set(c.Stdout, jobs, slices.Insert(slices.Clone(list), bpm,
					any(object{"name": "syslog_forwarder", "release": "syslog"})))
			}
		}, false,
	},
	{
		"a project that exists keeps its automation password", "mongodb", "01-create-standalone", func(c *recorded) {
			parameters(object{"projectName": "Team"})(c)
			c.Input["ops_manager"] = object{"automation_password": "kept"}
			set(c.Stdout, agentProperties+"/auth_pwd", "kept")
			c.RandomPaths = slices.DeleteFunc(c.RandomPaths, func(path string) bool {
				return strings.HasSuffix(path, "/auth_pwd")
			})
		}, false,
	},
	{
		"the plan's update block is ignored", "mongodb", "01-create-standalone", func(c *recorded) {
			c.Input["plan"].(object)["update"] = object{
				"canaries": int64(2), "max_in_flight": int64(2),
				"canary_watch_time": "1-2", "update_watch_time": "1-2",
			}
		}, true,
	},
	{
		"Ops Manager refuses", "mongodb", "01-create-standalone", func(c *recorded) {
			c.Asked = []any{object{"status": int64(401)}}
			c.Exit, c.Stdout = 1, "Ops Manager answers 401"
		}, true,
	},
	{
		"a plan without servers", "mongodb", "01-create-standalone", func(c *recorded) {
			set(c.Input["plan"], "/instance_groups", []any{})
			c.Exit, c.Stdout = 1, "no definition found for instance group"
		}, true,
	},
	{
		"a binding of one server", "mongodb", "21-bind-user-exists", func(c *recorded) {
			set(c.Input["manifest"], mongoProperties+"/plan_id", "standalone")
			uri := value.Text(at(c.Stdout, "/credentials/uri"))
			set(c.Stdout, "/credentials/uri", strings.TrimSuffix(uri, "&replicaSet=pcf_repl"))
		}, false,
	},
	{
		"a binding of a sharded cluster", "mongodb", "21-bind-user-exists", func(c *recorded) {
			set(c.Input["manifest"], mongoProperties+"/plan_id", "sharded_cluster")
			set(c.Input["manifest"], mongoProperties+"/routers", int64(2))
			c.Input["bosh_vms"].(object)["mongod_node"] = []any{"10.244.9.1", "10.244.0.30", "10.244.0.4"}
			set(c.Stdout, "/credentials/servers", []any{"10.244.0.4:28000", "10.244.9.1:28000"})
		}, false,
	},
	{
		"a binding with TLS has the names of Ops Manager", "mongodb", "21-bind-user-exists", func(c *recorded) {
			set(c.Input["manifest"], mongoProperties+"/require_ssl", true)
			set(c.Stdout, "/credentials/ssl", true)
			set(c.Stdout, "/credentials/servers", []any{"node-0.example.com:28000"})
		}, true,
	},
	{
		"unbinding drops the user", "mongodb", "23-unbind-no-user", func(c *recorded) {
			c.Input["server_users"] = []any{"pcf_7b7f72c2cf43a67c2627f8d03724bf56"}
			c.Exit, c.Stdout = 0, ""
		}, false,
	},

	{"other groups of the plan are dropped", "ondemand", "01-create-small", otherGroup, true},
	{
		"a job without a release, and no groups", "ondemand", "01-create-small", func(c *recorded) {
			set(c.Input["service_deployment"], "/releases/0/jobs", []any{"haproxy"})
			set(c.Stdout, "/instance_groups", []any{})
		}, true,
	},
	{
		"parameters of any name are properties", "ondemand", "01-create-small", func(c *recorded) {
			at(c.request(), "/parameters").(object)["stats"] = object{"port": int64(9), "on": true}
			set(c.Stdout, "/properties/stats", object{"port": int64(9), "on": true})
		}, false,
	},
	{
		"a parameter replaces a property of the plan", "ondemand", "01-create-small", func(c *recorded) {
			at(c.request(), "/parameters").(object)["user"] = object{"name": "me"}
			set(c.Stdout, "/properties/user", object{"name": "me"})
		}, true,
	},
	{
		"an update keeps what the instance has", "ondemand", "01-create-small", func(c *recorded) {
			updated(c)
			c.Input["store"] = c.Held
			at(c.request(), "/parameters/haproxy").(object)["backend"] = "10.0.0.2"
			c.Stdout = value.CloneMap(c.Stdout.(object))
			set(c.Stdout, "/properties/haproxy/backend", "10.0.0.2")
		}, false,
	},
	{
		"the next instance gets other values", "ondemand", "01-create-small", func(c *recorded) {
			c.Input["store"] = value.CloneMap(c.Held.(object))
			set(c.Input["service_deployment"], "/deployment_name", "service-instance_2")
			set(c.Stdout, "/name", "service-instance_2")
			set(c.Stdout, "/properties/keepalived", object{
				"vip": "10.2.0.11", "virtual_router_id": int64(52), "ports": []any{int64(7002), int64(7003)},
				"priority": int64(100),
			})
			for i, used := range map[int]object{
				1: {"values": []any{"7002", "7003"}}, 3: {"values": []any{"10.2.0.11"}, "group": "net2"},
				4: {"values": []any{"52"}},
			} {
				pool := at(c.Held, fmt.Sprintf("/inputs/%d", i)).(object)
				used["deployment"] = "service-instance_2"
				pool["used"] = append(pool["used"].([]any), used)
			}
		}, false,
	},
	{
		"values are those of the new plan, and those of the old one " +
			"stay taken", "ondemand", "05-create-vm-type-by-user", func(c *recorded) {
			before := caseOf("ondemand", "01-create-small")
			c.Input["store"], c.Input["previous_plan"] = before.Held, before.Input["plan"]
			c.Input["previous_manifest"] = before.Stdout
			set(c.Held, "/inputs", append(at(c.Held, "/inputs").([]any), at(before.Held, "/inputs").([]any)...))
		}, false,
	},
	{
		"a pool of single values is empty", "ondemand", "01-create-small", func(c *recorded) {
			set(c.Input["plan"], "/properties/keepalived/vip", "10.1.0.9|10.2.0.9")
			c.Exit, c.Stdout = 1, "no enough values to allocate for {keepalived.vip 10.1.0.9|10.2.0.9 0 false}"
		}, true,
	},
	{
		"several keys that are missing", "ondemand", "11-error-no-parameters", func(c *recorded) {
			set(c.Input["plan"], "/properties", object{})
			c.Stdout = "required key metadata.network are not found in requestrequired key haproxy.backend are " +
				"not found in request"
		}, false,
	},
	{
		"a binding of the large plan has a tier", "ondemand", "21-bind-no-vms", func(c *recorded) {
			c.Input["bosh_vms"] = object{"haproxy": []any{"10.0.8.6", "10.0.8.5"}}
			set(c.Stdout, "/credentials/ip", []any{"10.0.8.6", "10.0.8.5"})
			set(c.Stdout, "/credentials/ips", ",10.0.8.6,10.0.8.5")
		}, true,
	},
	{"unbinding does nothing", "ondemand", "19-bind-small", unbound, false},
	{"unbinding needs no VMs", "ondemand", "21-bind-no-vms", unbound, false},
}

// JSON pointers to properties in manifests.
const (
	hazelcastProperties = "/instance_groups/0/jobs/0/properties/hazelcast"
	// The properties of the group that instructs Ops Manager, and those that bindings read.
	agentProperties = "/instance_groups/1/properties/mongo_ops"
	mongoProperties = "/properties/mongo_ops"
)

// otherGroup adds a group to the plan that the service does not have.
func otherGroup(c *recorded) {
	plan := c.Input["plan"].(object)
	plan["instance_groups"] = append(plan["instance_groups"].([]any), object{
		"name": "other", "vm_type": "small", "instances": int64(1), "networks": []any{"default"}, "azs": []any{"z1"},
	})
}

// updated turns a creation into an update of the created instance without changes.
func updated(c *recorded) {
	c.Input["previous_plan"], c.Input["previous_manifest"] = c.Input["plan"], c.Stdout
}

// unbound turns the creation of a binding into its deletion.
func unbound(c *recorded) {
	c.Command, c.Exit, c.Stdout = "delete-binding", 0, ""
}

// withoutVMs removes the VMs from the request.
func withoutVMs(c *recorded) { c.Input["bosh_vms"] = object{} }

// scaledIn gives the deployed instance more VMs in its first group.
func scaledIn(c *recorded) {
	for _, from := range []string{"previous_plan", "previous_manifest"} {
		set(c.Input[from], "/instance_groups/0/instances", int64(5))
	}
}

// set replaces the value of a tree at a JSON pointer.
func set(tree any, pointer string, item any) {
	end := strings.LastIndex(pointer, "/")
	at(tree, pointer[:end]).(object)[pointer[end+1:]] = item
}
