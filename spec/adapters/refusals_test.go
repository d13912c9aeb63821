package adapters_test

// A refusal is a kind of reason for which an adapter rejects a request.
type refusal struct {
	// adapter is the name of the adapter. It is "" if the row applies to all adapters.
	adapter string
	pairs   []saying
	used    bool
}

// A saying is a pair of regular expressions: theirs for the message of another adapter to the user or the operator, and
// ours for standard output or standard error of this adapter. In ours, $1 is a group of theirs.
type saying struct{ theirs, ours string }

// refusals contains all kinds. A rejection by another adapter for any other reason fails the suite.
var refusals = []refusal{
	{
		adapter: "zookeeper",
		pairs:   []saying{{`the current service plan is too small`, `cannot migrate to a smaller plan`}},
	},
	{
		// The operator's plan does not fit the service.
		pairs: []saying{
			{`expected 1 network for (\S+), got (\d+)`, `expected 1 network for $1, got $2`},
			{`expected to find: '([^']+)' in list`, `the plan lacks the instance group "$1"`},
			{`no release provided for job '([^' ]+)'`, `job '$1' not provided`},
			{`job '?([^' ]+)'? not provided`, `job '$1' not provided`},
			{`job '?([^' ]+)'? defined in multiple releases: `, `job '$1' is provided by several releases`},
		},
	},
	{pairs: []saying{{`no VMs for`, `no VMs for instance group "`}}},
	{
		adapter: "zookeeper",
		pairs: []saying{{
			`panic: interface conversion`,
			`property "\w+" of plan "\w+".* must be an? (integer|string)`,
		}},
	},
	{
		adapter: "zookeeper",
		pairs:   []saying{{`unsupported parameter\(s\) for this service: (\w+)`, `parameter "$1" is not supported`}},
	},

	{
		adapter: "aerospike",
		pairs:   []saying{{`no VMs for instance group`, `no VMs for instance group "Aerospike-(Server|AMC)"`}},
	},
	{
		adapter: "aerospike",
		pairs:   []saying{{`panic: interface conversion`, `property "\w+" of plan "\w+".* is required`}},
	},
	{adapter: "aerospike", pairs: []saying{{`unsupported parameter\(s\) : (\w+)`, `parameter "$1" is not supported`}}},
	{adapter: "aerospike", pairs: []saying{{`invalid argument for (\w+)`, `parameter "$1" must`}}},
	{adapter: "aerospike", pairs: []saying{{`Cannot reduce the size`, `Cannot reduce the size`}}},

	{
		adapter: "hazelcast",
		pairs:   []saying{{`panic: runtime error: index out of range`, `parameter "hazelcast_xml" must have a group`}},
	},

	{
		adapter: "concourse",
		pairs: []saying{
			{`panic: runtime error`, `the plan lacks the instance group "\w+"|job '\w+' not provided`},
			{`panic: interface conversion`, `property "\w+" of plan "\w+".* is required`},
		},
	},

	{
		adapter: "ondemand",
		pairs: []saying{
			{
				`(?m)cannot migrate to a smaller plan for (\w+)$`,
				`cannot migrate to a smaller plan: instance group "$1"`,
			},
			{`required key ([\w.]+) are not found in request`, `required key $1 are not found in request`},
			{
				`no enough values to allocate for \{keepalived\.(\w+) `,
				`no value is free in a pool of the plan(?s:.*)\["$1"\]`,
			},
		},
	},

	{
		adapter: "mongodb",
		pairs:   []saying{{`unable to find the latest MongoDB version`, `no version of MongoDB is known`}},
	},
	{
		adapter: "mongodb",
		pairs: []saying{{
			`unknown plan: `,
			`property "id" of the plan.* must be one of "standalone", "replica_set", "sharded_cluster"`,
		}},
	},
	// The operator performs the tasks of Ops Manager.
	{
		adapter: "mongodb",
		pairs: []saying{{
			`(?i)unauthorized|forbidden|\b(400|401|403|409|5\d\d)\b`,
			`the operator has no project "\w+"`,
		}},
	},
	{
		adapter: "mongodb",
		pairs: []saying{{
			`(?i)(no|missing).*(definition|instance group)|configuration issue`,
			`the plan lacks the instance group "mongod_node"`,
		}},
	},
}
