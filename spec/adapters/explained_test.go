package adapters_test

import "regexp"

// clients contains the names of the variables that contain the path of an adapter's command-line client.
var clients = map[string]string{"zookeeper": "ZK_COMMAND", "mongodb": "MONGODB_SHELL"}

// stubs contains the names of the files in testdata that replace those clients. The default is client.
var stubs = map[string]string{"mongodb": "mongosh"}

// bound contains the parameters of the bindings that cases delete.
var bound = map[string]object{"zookeeper": {"director": "stays"}}

// An explanation is an accepted difference.
type explanation struct {
	// adapter is the name of the adapter. It is "" if the row applies to all adapters.
	adapter string
	// path, theirs and ours are regular expressions for the whole path and the whole values. An empty expression
	// matches everything.
	path, theirs, ours string
	// where restricts the row to some cases. It may be nil.
	where  func(c recorded) bool
	reason string
	used   bool
}

// explains reports whether the row applies to a difference of a case.
func (e *explanation) explains(c recorded, d difference) bool {
	matches := func(pattern, text string) bool {
		return pattern == "" || regexp.MustCompile("^(?:"+pattern+")$").MatchString(text)
	}
	return (e.adapter == "" || e.adapter == c.Adapter) && (e.where == nil || e.where(c)) &&
		matches(e.path, d.path) && matches(e.theirs, d.theirs) && matches(e.ours, d.ours)
}

// The first words of reasons, and the expression for a missing value.
const (
	aDefect    = "a defect of that adapter: "
	documented = "a documented difference: "
	absentHere = `\(absent\)`
)

// record is the reason for the record in every manifest. A case with only this difference counts as equal.
const record = documented + "the record, from which the same manifest is generated again; BOSH and the broker ignore it"

// explanations contains all accepted differences. A defect is a behaviour that the descriptions of the recorded
// adapters exempt from reproduction.
var explanations = []explanation{
	{path: "/stdout/brokerpak", theirs: absentHere, reason: record},
	{path: "/exit", theirs: "2", ours: "1", reason: aDefect + "it panics, where a pak refuses"},
	{
		path: "/user", theirs: ".+", ours: ".+", where: func(c recorded) bool { return c.Exit == 1 },
		reason: documented + "one text for all paks; refusals_test.go has what each says",
	},

	{
		path: "/exit", theirs: "0",
		ours:   `(?s)1: parameter "\w+" (is not supported|is set by the plan and cannot be changed).*`,
		reason: documented + "a parameter that the service does not have is refused; that adapter ignores it",
	},
	{
		path: "/exit", theirs: "0",
		ours: `(?s)1: Contact your operator, .*: the plan has an instance group "\w+" ` +
			`that is not a group of the service.*`,
		reason: documented + "so is a group of the plan; that adapter drops it",
	},

	// ZooKeeper
	{
		adapter: "zookeeper",
		path: "/(stdout|pending)/.*/properties/(autopurge_snap_retain_count|leader_election_port|" +
			"sync_limit|tick_time|warning_threshold_ms)",
		where: func(c recorded) bool {
			return c.planSets("leader_election_port", "tick_time", "warning_threshold_ms")
		},
		reason: aDefect + "it writes three properties of the plan into the wrong settings",
	},
	{
		adapter: "zookeeper", path: "/user", theirs: `binding .*MISSING.*`,
		reason: aDefect + "the text is garbled; the broker has one of its own for this exit code",
	},
	{
		adapter: "zookeeper", path: "/exit", theirs: "1", ours: "0",
		where: func(c recorded) bool { return c.Command == "delete-binding" && len(c.Commands) == 0 },
		reason: documented +
			"an unbind must not depend on a deployment that may be gone; the servers of the creation are asked",
	},
	{
		adapter: "zookeeper", path: "/stdout/service_instance/(create|update)/parameters", theirs: "null",
		ours: `.*"properties":\{\}.*`,
		reason: documented +
			"a schema without parameters says that there are none, so that the broker refuses them itself",
	},
	{
		adapter: "zookeeper", path: "/stdout/service_binding/create/parameters/properties/director/(title|pattern)",
		theirs: absentHere,
		reason: documented +
			"schemas come from the inputs; a name that begins with a hyphen would be an option of the client",
	},

	// Aerospike
	{
		adapter: "aerospike", path: "/stdout/.*/properties/namespace_replication_factor", theirs: `"[0-9]+"`,
		ours:   "[0-9]+",
		where:  func(c recorded) bool { return c.Input["previous_manifest"] != nil },
		reason: aDefect + "an update makes a text of the number that the user sent",
	},
	{
		adapter: "aerospike", path: "/stdout/.*/(amc_address|routes/0/(name|uris/0))", theirs: `"aerospike-amc-.*"`,
		where:  func(c recorded) bool { return c.Input["previous_manifest"] != nil },
		reason: aDefect + "an update forgets the parameter amc_route, so that the console moves",
	},

	// Hazelcast
	{
		adapter: "hazelcast", path: "/(stdout|pending)/instance_groups", theirs: `\["mancenter","hazelcast"\]`,
		ours:   `\["hazelcast","mancenter"\]`,
		reason: documented + "groups stand in the order of the pak's template, whatever that of the plan is",
	},
	{
		adapter: "hazelcast", path: "/(stdout|pending)/instance_groups/1/jobs/0/properties", theirs: absentHere,
		reason: aDefect + "it fills the first group of the plan, whichever that is",
	},
	{
		adapter: "hazelcast", path: "/stdout/.*/properties/hazelcast/(hazelcast_xml|group_name|group_pass)",
		theirs: `""|"dev"|"dev-pass"`,
		where: func(c recorded) bool {
			return c.Input["previous_manifest"] != nil && at(c.request(), "/parameters/hazelcast_xml") == nil
		},
		reason: aDefect + "an update without the configuration forgets it",
	},
	{
		adapter: "hazelcast", path: "/stdout/.*/properties/hazelcast/(hazelcast_xml|group_name|group_pass)",
		theirs: `".*%!.*"`, ours: ".*%.*",
		reason: aDefect + "its SDK takes the manifest for a format, so that a percent sign is garbled",
	},

	// Concourse
	{
		adapter: "concourse", path: "/exit", theirs: "0",
		ours:   `(?s)1: .*property "(app_domain|cf_deployment)" of plan "\w+".* is required.*`,
		reason: aDefect + "without the property a formatting error stands in the manifest",
	},
	{
		adapter: "concourse", path: "/(stdout|pending)/instance_groups/[02]/(persistent_disk_type|lifecycle)",
		theirs: absentHere,
		reason: documented + "what the plan says about a group counts; that adapter reads the disk of db only",
	},
	{
		adapter: "concourse", path: "/stdout/instance_groups/[0-9]/networks/0/default", theirs: absentHere,
		reason: documented + "the first of several networks is the default; BOSH refuses them without one",
	},

	// MongoDB
	{
		adapter: "mongodb",
		path:    "/stdout/(instance_groups/0/instances|(.*/)?mongo_ops/(shards|replicas|config_servers|routers))",
		theirs:  "0",
		where:   func(c recorded) bool { return c.Input["previous_manifest"] != nil },
		reason:  aDefect + "a change of plan keeps the numbers of the old plan, which are 0",
	},
	{
		adapter: "mongodb", path: "/exit", theirs: "1", ours: "0", where: func(c recorded) bool {
			return c.Command == "delete-binding"
		},
		reason: aDefect + "the deletion of a user that is gone has nothing to do",
	},
	{
		adapter: "mongodb", path: "/user", theirs: "unknown plan: .*", ours: "",
		reason: documented +
			"a plan that does not fit is the operator's matter, who reads it; the user reads the broker's text",
	},
	{
		adapter: "mongodb", path: "/stdout/credentials/(servers(/[0-9]+)?|uri)",
		where: func(c recorded) bool { return at(c.Input, "/manifest/properties/mongo_ops/require_ssl") == true },
		reason: documented + "only Ops Manager knows the names that it lists with TLS, and the pak does not ask " +
			"it; bindings have the broker's addresses",
	},
	{
		adapter: "mongodb", path: "/(stdout|pending)/update(/.*)?",
		where:  func(c recorded) bool { return at(c.Input, "/plan/update") != nil },
		reason: documented + "the plan's update block counts; that adapter ignores it",
	},

	// The generic adapter
	{
		adapter: "ondemand", path: "/stdout/properties/keepalived/.*|/store/.*", where: recorded.hasSingleValues,
		reason: aDefect + "single values of a pool are dropped",
	},
	{
		adapter: "ondemand", path: "/exit", theirs: "1", ours: "0", where: recorded.hasSingleValues,
		reason: aDefect + "so a pool of single values is empty",
	},
	{
		adapter: "ondemand", path: "/exit", theirs: "0", ours: `(?s)1: .*job '\w+' not provided by any release.*`,
		reason: aDefect + "without the release of a job the manifest has no instance groups",
	},
	{
		adapter: "ondemand", path: "/stdout/credentials/ips", theirs: `",.*"`,
		reason: aDefect + "the text begins with a comma",
	},
	{
		adapter: "ondemand", path: "/exit", theirs: "0", ours: `(?s)1: .*no VMs for instance group "haproxy".*`,
		reason: documented + "a binding without an address is refused",
	},
	{
		adapter: "ondemand", path: "/exit", theirs: "0", ours: `(?s)10: .*no service has a dashboard_url.*`,
		reason: documented + "a service without a dashboard says so; that adapter gives an empty URL",
	},
}
