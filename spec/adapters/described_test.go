package adapters_test

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/internal/value"
)

// described contains behaviours from the descriptions of the adapters. Each is tested with a recorded case whose input
// or outcome is changed.
var described = []struct {
	behaviour, adapter, from string
	change                   func(c *recorded)
	exit                     int
	// user is a regular expression for the user's message, and operator one for standard error.
	user, operator string
}{
	{
		"a binding without VMs is refused", "zookeeper", "15-bind-with-director",
		func(c *recorded) {
			c.Input["bosh_vms"] = object{"other": []any{"10.0.0.1"}}
		}, 1, "", "no VMs for instance group .*zookeeper",
	},
	{
		"a client that fails otherwise refuses a binding", "zookeeper", "19-bind-exists", func(c *recorded) {
			c.Exit = 1
		}, 1, "", "no server answers",
	},
	{
		"a node that is gone is no such binding", "zookeeper", "21-unbind", func(c *recorded) {
			c.Exit = 41
		}, 41, "", "",
	},
	{
		"the name of a namespace is final", "aerospike", "21-update-final-parameter-same-value",
		parameters(object{"namespace_name": "other"}),
		1, `parameter "namespace_name" cannot be changed`, "",
	},
	{
		"the storage of a namespace is final", "aerospike", "21-update-final-parameter-same-value",
		parameters(object{"namespace_storage_type": "device"}), 1,
		`parameter "namespace_storage_type" cannot be changed`, "",
	},
	{
		"a size has a unit", "aerospike", "01-create-small", parameters(object{"namespace_filesize": "4"}),
		1, `parameter "namespace_filesize" must match the pattern`, "",
	},
	{
		"a user cannot take servers away", "aerospike", "15-update-keeps-parameters",
		parameters(object{"server_instances": 4}),
		1, "Cannot reduce the size of the Aerospike cluster", "",
	},
	{
		"members are in one network", "hazelcast", "01-create-small", func(c *recorded) {
			set(c.Input["plan"], "/instance_groups/0/networks", []any{"default", "other"})
		}, 1, "", "expected 1 network for hazelcast, got 2",
	},
	{
		"a job that several releases have", "hazelcast", "01-create-small", func(c *recorded) {
			releases := c.Input["service_deployment"].(object)
			releases["releases"] = append(releases["releases"].([]any),
				object{"name": "second", "version": "1", "jobs": []any{"hazelcast"}})
		}, 1, "job 'hazelcast' is provided by several releases of the deployment: hazelcast, second", "",
	},
	{
		"a configuration whose group has no password", "hazelcast", "01-create-small",
		parameters(object{"hazelcast_xml": "<group><name>n</name></group>"}), 1,
		`parameter "hazelcast_xml" must have a group with a name and a password`, "",
	},
	{
		"a job that no release has", "concourse", "01-create-small", func(c *recorded) {
			set(c.Input["service_deployment"], "/releases/1/jobs", []any{"other"})
		}, 1, "job 'garden' not provided by any release of the deployment", "",
	},
	{
		"a server that refuses the administrator", "mongodb", "21-bind-user-exists", func(c *recorded) {
			c.Input["server_admin_password"] = "other"
		},
		1, "", "MongoDB: AuthenticationFailed",
	},
	{
		"a network that is no choice", "ondemand", "01-create-small",
		parameters(object{"metadata": object{"network": "net3"}, "haproxy": object{"backend": "b"}}),
		1, `parameter "metadata" must have a network of net1, net2`, "",
	},
	{
		"a binding without what its credentials are", "ondemand", "19-bind-small",
		func(c *recorded) {
			set(c.Input["manifest"], "/properties/keepalived", object{})
		}, 1, "", "/properties/keepalived/vip",
	},
	{
		"a binding without VMs is refused", "mongodb", "21-bind-user-exists", withoutVMs, 1, "",
		"no VMs for instance group .*mongod_node",
	},
}

// parameters returns a change that replaces the parameters of a case's request.
func parameters(all object) func(c *recorded) {
	return func(c *recorded) {
		body := maps.Clone(c.request())
		body["parameters"] = all
		c.Input["request_parameters"] = body
	}
}

// caseOf returns the recorded case with a name. It fails the spec if there is none.
func caseOf(adapter, name string) recorded {
	GinkgoHelper()
	for _, c := range casesOf(adapter) {
		if c.name == name {
			return c
		}
	}
	Fail("no such case: " + name)
	return recorded{}
}

// credentials plays a creation and then a binding to the created instance, and returns the credentials.
func (p *player) credentials(ctx context.Context, vms object) any {
	GinkgoHelper()
	got := p.play(ctx)
	Expect(got.Exit).To(Equal(0), got.Stderr)
	p.Input["binding_id"], p.Input["manifest"] = "binding", treeOf(manifestOf(got.Stdout))
	body := maps.Clone(p.request())
	maps.Copy(body, object{"app_guid": "app", "bind_resource": object{"app_guid": "app"}, "parameters": nil})
	got = p.call(ctx, "create-binding", p.bind(vms, body))
	Expect(got.Exit).To(Equal(0), got.Stderr)
	return at(answered(got.Stdout), "/credentials")
}

var _ = Describe("An adapter's description", func() {
	for _, one := range described {
		It(one.adapter+": "+one.behaviour, func(ctx context.Context) {
			c := caseOf(one.adapter, one.from)
			one.change(&c)
			got := newPlayer(c).play(ctx)
			Expect(got.Exit).To(Equal(one.exit))
			Expect(got.Stdout).To(MatchRegexp(one.user))
			Expect(got.Stderr).To(MatchRegexp(one.operator))
		})
	}

	It("of aerospike is met: credentials are those of the cluster", func(ctx context.Context) {
		c := caseOf("aerospike", "23-bind-no-server-vms")
		c.Input["bosh_vms"].(object)["Aerospike-Server"] = []any{"10.0.8.6", "10.0.8.5"}
		got := newPlayer(c).play(ctx)
		Expect(got.Exit).To(Equal(0))
		Expect(at(answered(got.Stdout), "/credentials")).To(Equal(object{
			"service_type": "medium", "hostname": "10.0.8.6", "port": int64(3000), "namespace": "cf_persistent",
			"aerospike_server_ips": []any{"10.0.8.6", "10.0.8.5"}, "aerospike_amc_ips": []any{"10.0.8.9"},
			"user": "admin", "password": "zsJZMPxGiWFT6jXSKzWw",
			"amc_address": "https://aerospike-amc-7c2d.apps.example.com",
		}))
	})

	It("of hazelcast is met: a binding to an instance that the pak created", func(ctx context.Context) {
		p := newPlayer(caseOf("hazelcast", "03-create-with-hazelcast-xml"))
		Expect(p.credentials(ctx, object{"hazelcast": []any{"10.0.8.6", "10.0.8.5"}})).To(Equal(object{
			"members": []any{"10.0.8.6", "10.0.8.5"}, "group_name": "prod", "group_pass": "s3cret",
		}))
	})

	It("of concourse is met: a binding to an instance that the pak created", func(ctx context.Context) {
		p := newPlayer(caseOf("concourse", "01-create-small"))
		Expect(p.credentials(ctx, object{})).To(And(
			HaveKeyWithValue("host", "https://service-instance_abcd.apps.example.com"),
			HaveKeyWithValue("username", "atc"),
			HaveKeyWithValue("password", MatchRegexp("^[A-Za-z0-9]{28}$")), HaveLen(3),
		))
	})

	It("of aerospike is met: an instance that the pak created keeps its namespace", func(ctx context.Context) {
		p := newPlayer(caseOf("aerospike", "01-create-small"))
		manifest := manifestOf(p.play(ctx).Stdout)
		small := p.Input["plan"].(object)
		other := value.CloneMap(small)
		other["properties"].(object)["namespace_name"] = "cf_persistent"

		By("an update to a plan with another namespace")
		got := p.call(ctx, "generate-manifest", p.generate(other, small, manifest, p.request()))
		Expect(got.Exit).To(Equal(0), got.Stderr)
		manifest = manifestOf(got.Stdout)
		const name = "/instance_groups/0/jobs/0/properties/namespace_name"
		Expect(at(treeOf(manifest), name)).To(Equal("cf_session"))
		Expect(odb.SameManifests(manifest, p.pending(ctx, other, manifest))).To(BeTrue())

		By("a request with the name of the plan, then with that of the instance")
		for wanted, exit := range map[string]int{"cf_persistent": 1, "cf_session": 0} {
			parameters(object{"namespace_name": wanted})(&p.recorded)
			Expect(p.call(ctx,
				"generate-manifest", p.generate(other, other, manifest, p.request())).Exit).To(Equal(exit),
				wanted)
		}
	})

	It("of mongodb is met: an app moves from one binding to another", func(ctx context.Context) {
		p := newPlayer(caseOf("mongodb", "21-bind-user-exists"))
		p.serve(nil)
		usernames := object{}
		for _, id := range []string{"old", "new"} {
			p.Input["binding_id"] = id
			got := p.call(ctx, "create-binding", p.bind(p.Input["bosh_vms"], p.request()))
			Expect(got.Exit).To(Equal(0), got.Stderr)
			usernames[id] = at(answered(got.Stdout), "/credentials/username")
		}
		Expect(usernames["old"]).NotTo(Equal(usernames["new"]))
		before := len(p.receivedHere())
		p.Input["binding_id"] = "old"
		got := p.call(ctx, "delete-binding", p.bind(p.Input["bosh_vms"], p.request()))
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(p.receivedHere()[before:]).To(ConsistOf(HaveKeyWithValue("dropUser", usernames["old"])))
	})

	It("of mongodb is met: an instance stays in its project", func(ctx context.Context) {
		p := newPlayer(caseOf("mongodb", "03-create-replica-set-five"))
		manifest := manifestOf(p.play(ctx).Stdout)
		plan := p.Input["plan"]

		By("a request with another project")
		p.Stdout = nil
		for name, exit := range map[string]int{"Team": 1, "": 0} {
			parameters(object{"projectName": name})(&p.recorded)
			p.projects = object{"default": "5be0c1a2f3d4e5f601234567", "Team": "5be0c1a2f3d4e5f601234568"}
			got := p.call(ctx, "generate-manifest", p.generate(plan, plan, manifest, p.request()))
			Expect(got.Exit).To(Equal(exit), name)
			Expect(got.Stdout).To(
				ContainSubstring(map[int]string{1: `parameter "projectName" cannot be changed`}[exit]))
		}
	})

	It("of mongodb is met: an instance of the other adapter needs no project of the operator, and keeps its agent key",
		func(ctx context.Context) {
			p := newPlayer(caseOf("mongodb", "15-update-keeps-parameters"))
			p.projects = object{}
			manifest := manifestOf(p.play(ctx).Stdout)
			Expect(at(treeOf(manifest), "/properties/mongo_ops/api_key")).To(Equal("agent-key-1"))
			Expect(odb.SameManifests(manifest, p.pending(ctx, p.Input["plan"], manifest))).To(BeTrue())
		})
})
