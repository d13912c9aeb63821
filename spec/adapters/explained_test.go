package adapters_test

import "regexp"

// clients are the variables that name the command-line clients of adapters that have one.
var clients = map[string]string{"zookeeper": "ZK_COMMAND"}

// bound are the parameters of the bindings that cases delete.
var bound = map[string]object{"zookeeper": {"director": "stays"}}

// explanation is a difference that is wanted.
type explanation struct {
	// adapter is empty where the row is for all.
	adapter string
	// path, theirs and ours are regular expressions for the whole place and the whole values there. An empty one admits anything.
	path, theirs, ours string
	// where limits it to some cases.
	where  func(c recorded) bool
	reason string
	used   bool
}

func (e *explanation) explains(c recorded, d difference) bool {
	matches := func(pattern, text string) bool {
		return pattern == "" || regexp.MustCompile("^(?:"+pattern+")$").MatchString(text)
	}
	return (e.adapter == "" || e.adapter == c.Adapter) && (e.where == nil || e.where(c)) &&
		matches(e.path, d.path) && matches(e.theirs, d.theirs) && matches(e.ours, d.ours)
}

const (
	aDefect    = "a defect of that adapter: "
	documented = "a documented difference: "
	absentHere = `\(absent\)`
)

// record explains what every manifest has. It makes no case unequal.
const record = documented + "the record, from which the same manifest is made again; BOSH and the broker ignore it"

// explanations are all differences. A defect is what the recorded adapters' descriptions say need not be reproduced.
var explanations = []explanation{
	{path: "/stdout/brokerpak", theirs: absentHere, reason: record},
	{path: "/exit", theirs: "2", ours: "1", reason: aDefect + "it panics, where a pak refuses"},
	{
		path: "/user", theirs: ".+", ours: ".+", where: func(c recorded) bool { return c.Exit == 1 },
		reason: documented + "one text for all paks; refusals_test.go has what each says",
	},

	// ZooKeeper
	{
		adapter: "zookeeper",
		path:    "/(stdout|pending)/.*/properties/(autopurge_snap_retain_count|leader_election_port|sync_limit|tick_time|warning_threshold_ms)",
		where:   func(c recorded) bool { return c.planSets("leader_election_port", "tick_time", "warning_threshold_ms") },
		reason:  aDefect + "it writes three properties of the plan into the wrong settings",
	},
	{
		adapter: "zookeeper", path: "/user", theirs: `binding .*MISSING.*`,
		reason: aDefect + "the text is garbled; the broker has one of its own for this exit code",
	},
	{
		adapter: "zookeeper", path: "/exit", theirs: "1", ours: "0",
		where:  func(c recorded) bool { return c.Command == "delete-binding" && len(c.Commands) == 0 },
		reason: documented + "an unbind must not depend on a deployment that may be gone; the servers of the creation are asked",
	},
	{
		adapter: "zookeeper", path: "/stdout/service_instance/(create|update)/parameters", theirs: "null", ours: `.*"properties":\{\}.*`,
		reason: documented + "a schema without parameters says that there are none, so that the broker refuses them itself",
	},
	{
		adapter: "zookeeper", path: "/stdout/service_binding/create/parameters/properties/director/(title|pattern)", theirs: absentHere,
		reason: documented + "schemas come from the inputs; a name that begins with a hyphen would be an option of the client",
	},

	// Aerospike
	{
		adapter: "aerospike", path: "/stdout/.*/properties/namespace_replication_factor", theirs: `"[0-9]+"`, ours: "[0-9]+",
		where:  func(c recorded) bool { return c.Input["previous_manifest"] != nil },
		reason: aDefect + "an update makes a text of the number that the user sent",
	},
	{
		adapter: "aerospike", path: "/stdout/.*/(amc_address|routes/0/(name|uris/0))", theirs: `"aerospike-amc-.*"`,
		where:  func(c recorded) bool { return c.Input["previous_manifest"] != nil },
		reason: aDefect + "an update forgets the parameter amc_route, so that the console moves",
	},
}
