// Code generated from bosh-manifest-v2.schema.json by UPDATE=1 go test ./schemas. DO NOT EDIT.

package schemas

var manifestRule = rule{
	Closed: true,
	Properties: []property{
		{"addons", rule{Items: &rule{Ref: &addonRule}, Types: []string{"array"}}},
		{"brokerpak", rule{Types: []string{"string"}}},
		{"brokerpak_outputs", rule{Additional: &rule{Types: []string{"string"}}, Types: []string{"object"}}},
		{"director_uuid", rule{Types: []string{"string"}}},
		{"features", rule{
			Properties: []property{
				{"converge_variables", rule{Types: []string{"boolean"}}},
				{"randomize_az_placement", rule{Types: []string{"boolean"}}},
				{"use_dns_addresses", rule{Types: []string{"boolean"}}},
				{"use_link_dns_names", rule{Types: []string{"boolean"}}},
				{"use_short_dns_addresses", rule{Types: []string{"boolean"}}},
				{"use_tmpfs_config", rule{Types: []string{"boolean"}}},
			},
			Types: []string{"object"},
		}},
		{"instance_groups", rule{Items: &rule{Ref: &instanceGroupRule}, Types: []string{"array"}}},
		{"name", rule{Ref: &nameRule}},
		{"properties", rule{Types: []string{"object"}}},
		{"releases", rule{Items: &rule{Ref: &releaseRule}, Types: []string{"array"}}},
		{"stemcells", rule{Items: &rule{Ref: &stemcellRule}, MinItems: 1, Types: []string{"array"}}},
		{"tags", rule{Ref: &tagsRule}},
		{"update", rule{AllOf: []rule{
			{Ref: &updateRule},
			{Required: []string{"canaries", "max_in_flight", "canary_watch_time", "update_watch_time"}},
		}}},
		{"variables", rule{Items: &rule{Ref: &variableRule}, Types: []string{"array"}}},
	},
	Required: []string{"name", "releases", "stemcells", "update", "instance_groups"},
	Types:    []string{"object"},
}

var addonRule = rule{
	Closed: true,
	Properties: []property{
		{"exclude", rule{Ref: &filterRule}},
		{"include", rule{Ref: &filterRule}},
		{"jobs", rule{Items: &rule{Ref: &jobRule}, Types: []string{"array"}}},
		{"name", rule{Ref: &nameRule}},
		{"properties", rule{Types: []string{"object"}}},
	},
	Required: []string{"name", "jobs"},
	Types:    []string{"object"},
}

var consumesRule = rule{AnyOf: []rule{
	{Enum: []string{"nil"}},
	{
		Closed: true,
		Properties: []property{
			{"deployment", rule{Types: []string{"string"}}},
			{"from", rule{Types: []string{"string"}}},
			{"ip_addresses", rule{Types: []string{"boolean"}}},
			{"network", rule{Types: []string{"string"}}},
		},
		Types: []string{"object"},
	},
	{
		Closed: true,
		Properties: []property{
			{"address", rule{Types: []string{"string"}}},
			{"instances", rule{Items: &rule{Types: []string{"object"}}, Types: []string{"array"}}},
			{"properties", rule{Types: []string{"object"}}},
		},
		Required: []string{"instances"},
		Types:    []string{"object"},
	},
}}

var filterRule = rule{
	Closed: true,
	Properties: []property{
		{"azs", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
		{"instance_groups", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
		{"jobs", rule{Items: &rule{Required: []string{"name", "release"}, Types: []string{"object"}}, Types: []string{"array"}}},
		{"lifecycle", rule{Enum: []string{"service", "errand"}}},
		{"networks", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
		{"stemcell", rule{
			Items: &rule{
				Properties: []property{
					{"os", rule{Types: []string{"string"}}},
				},
				Required: []string{"os"},
				Types:    []string{"object"},
			},
			Types: []string{"array"},
		}},
		{"teams", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
	},
	Types: []string{"object"},
}

var instanceGroupRule = rule{
	Closed: true,
	Not: &rule{AnyOf: []rule{
		{Required: []string{"persistent_disk", "persistent_disk_type"}},
		{Required: []string{"persistent_disk", "persistent_disks"}},
		{Required: []string{"persistent_disk_type", "persistent_disks"}},
	}},
	OneOf: []rule{
		{Required: []string{"vm_type"}},
		{Required: []string{"vm_resources"}},
	},
	Properties: []property{
		{"azs", rule{Items: &rule{Types: []string{"string"}}, MinItems: 1, Types: []string{"array"}}},
		{"env", rule{Types: []string{"object"}}},
		{"instances", rule{Limited: true, Minimum: 0, Types: []string{"integer"}}},
		{"jobs", rule{Items: &rule{Ref: &jobRule}, Types: []string{"array"}}},
		{"lifecycle", rule{Enum: []string{"service", "errand"}}},
		{"migrated_from", rule{
			Items: &rule{
				Closed: true,
				Properties: []property{
					{"az", rule{Types: []string{"string"}}},
					{"name", rule{Types: []string{"string"}}},
				},
				Required: []string{"name"},
				Types:    []string{"object"},
			},
			Types: []string{"array"},
		}},
		{"name", rule{Ref: &nameRule}},
		{"networks", rule{
			Items: &rule{
				Closed: true,
				Properties: []property{
					{"default", rule{Items: &rule{Enum: []string{"dns", "gateway", "addressable"}}, Types: []string{"array"}}},
					{"name", rule{Types: []string{"string"}}},
					{"nic_group", rule{Types: []string{"string", "integer"}}},
					{"static_ips", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
				},
				Required: []string{"name"},
				Types:    []string{"object"},
			},
			MinItems: 1,
			Types:    []string{"array"},
		}},
		{"persistent_disk", rule{Limited: true, Minimum: 0, Types: []string{"integer"}}},
		{"persistent_disk_type", rule{Types: []string{"string"}}},
		{"persistent_disks", rule{
			Items: &rule{
				Closed: true,
				Properties: []property{
					{"name", rule{Ref: &nameRule}},
					{"type", rule{Types: []string{"string"}}},
				},
				Required: []string{"name", "type"},
				Types:    []string{"object"},
			},
			Types: []string{"array"},
		}},
		{"properties", rule{Types: []string{"object"}}},
		{"stemcell", rule{Types: []string{"string"}}},
		{"tags", rule{Ref: &tagsRule}},
		{"update", rule{Ref: &updateRule}},
		{"vm_extensions", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
		{"vm_resources", rule{
			Closed: true,
			Properties: []property{
				{"cpu", rule{Types: []string{"integer"}}},
				{"ephemeral_disk_size", rule{Types: []string{"integer"}}},
				{"ram", rule{Types: []string{"integer"}}},
			},
			Required: []string{"cpu", "ram", "ephemeral_disk_size"},
			Types:    []string{"object"},
		}},
		{"vm_type", rule{Types: []string{"string"}}},
	},
	Required: []string{"name", "instances", "jobs", "stemcell", "networks"},
	Types:    []string{"object"},
}

var jobRule = rule{
	Closed: true,
	Properties: []property{
		{"consumes", rule{Additional: &rule{Ref: &consumesRule}, Types: []string{"object"}}},
		{"custom_provider_definitions", rule{
			Items: &rule{
				Closed: true,
				Properties: []property{
					{"name", rule{Ref: &nameRule}},
					{"properties", rule{Items: &rule{Types: []string{"string"}}, Types: []string{"array"}}},
					{"type", rule{Ref: &nameRule}},
				},
				Required: []string{"name", "type"},
				Types:    []string{"object"},
			},
			Types: []string{"array"},
		}},
		{"name", rule{Ref: &nameRule}},
		{"properties", rule{Types: []string{"object"}}},
		{"provides", rule{Additional: &rule{Ref: &providesRule}, Types: []string{"object"}}},
		{"release", rule{Ref: &nameRule}},
	},
	Required: []string{"name", "release"},
	Types:    []string{"object"},
}

var nameRule = rule{MinLength: 1, Types: []string{"string"}}

var osVersionRule = rule{
	Closed: true,
	Properties: []property{
		{"os", rule{Types: []string{"string"}}},
		{"version", rule{Ref: &versionRule}},
	},
	Required: []string{"os", "version"},
	Types:    []string{"object"},
}

var percentRule = rule{Pattern: `^(\d+%|[-+]?\d+)$`, Types: []string{"string"}}

var providesRule = rule{
	Closed: true,
	Properties: []property{
		{"aliases", rule{
			Items: &rule{
				Closed: true,
				Properties: []property{
					{"domain", rule{Types: []string{"string"}}},
					{"health_filter", rule{Enum: []string{"smart", "healthy", "unhealthy", "all"}}},
					{"initial_health_check", rule{Enum: []string{"asynchronous", "synchronous"}}},
					{"placeholder_type", rule{Types: []string{"string"}}},
				},
				Required: []string{"domain"},
				Types:    []string{"object"},
			},
			Types: []string{"array"},
		}},
		{"as", rule{Types: []string{"string"}}},
		{"shared", rule{Types: []string{"boolean"}}},
	},
	Types: []string{"object"},
}

var releaseRule = rule{
	Closed: true,
	Properties: []property{
		{"exported_from", rule{Items: &rule{Ref: &osVersionRule}, Types: []string{"array"}}},
		{"name", rule{Ref: &nameRule}},
		{"sha1", rule{Types: []string{"string"}}},
		{"stemcell", rule{Ref: &osVersionRule}},
		{"url", rule{Types: []string{"string"}}},
		{"version", rule{Ref: &versionRule}},
	},
	Required: []string{"name", "version"},
	Types:    []string{"object"},
}

var stemcellRule = rule{
	Closed: true,
	AnyOf: []rule{
		{Required: []string{"os"}},
		{Required: []string{"name"}},
	},
	Properties: []property{
		{"alias", rule{Ref: &nameRule}},
		{"name", rule{Types: []string{"string"}}},
		{"os", rule{Types: []string{"string"}}},
		{"version", rule{Ref: &versionRule}},
	},
	Required: []string{"alias", "version"},
	Types:    []string{"object"},
}

var tagsRule = rule{Additional: &rule{Types: []string{"string", "number", "boolean"}}, Types: []string{"object"}}

var updateRule = rule{
	Closed: true,
	Properties: []property{
		{"canaries", rule{Limited: true, Minimum: 0, Types: []string{"integer"}}},
		{"canary_watch_time", rule{Ref: &watchTimeRule}},
		{"initial_deploy_az_update_strategy", rule{Enum: []string{"serial", "parallel"}}},
		{"max_in_flight", rule{AnyOf: []rule{
			{Types: []string{"integer"}},
			{Ref: &percentRule},
		}}},
		{"serial", rule{Types: []string{"boolean"}}},
		{"update_watch_time", rule{Ref: &watchTimeRule}},
		{"vm_strategy", rule{Enum: []string{"delete-create", "create-swap-delete"}}},
	},
	Types: []string{"object"},
}

var variableRule = rule{
	Closed: true,
	If:     &rule{Required: []string{"consumes"}},
	Properties: []property{
		{"consumes", rule{
			Closed: true,
			Properties: []property{
				{"alternative_name", rule{Ref: &variableLinkRule}},
				{"common_name", rule{Ref: &variableLinkRule}},
			},
			Types: []string{"object"},
		}},
		{"name", rule{Not: &rule{Pattern: `//|/$`}, Pattern: `^[a-zA-Z0-9_/-]+$`, Types: []string{"string"}}},
		{"options", rule{Types: []string{"object"}}},
		{"type", rule{Enum: []string{"certificate", "password", "rsa", "ssh", "user"}}},
		{"update", rule{
			Closed: true,
			Properties: []property{
				{"strategy", rule{Enum: []string{"on-deploy", "on-stemcell-change"}}},
			},
			Types: []string{"object"},
		}},
		{"update_mode", rule{Enum: []string{"no-overwrite", "overwrite", "converge"}}},
	},
	Required: []string{"name", "type"},
	Then: &rule{Properties: []property{
		{"type", rule{Enum: []string{"certificate"}}},
	}},
	Types: []string{"object"},
}

var variableLinkRule = rule{
	Closed: true,
	Properties: []property{
		{"from", rule{Types: []string{"string"}}},
		{"link_type", rule{Types: []string{"string"}}},
		{"properties", rule{
			Properties: []property{
				{"wildcard", rule{Types: []string{"boolean"}}},
			},
			Types: []string{"object"},
		}},
	},
	Types: []string{"object"},
}

var versionRule = rule{Types: []string{"string", "number"}}

var watchTimeRule = rule{AnyOf: []rule{
	{Limited: true, Minimum: 0, Types: []string{"integer"}},
	{Pattern: `^\s*\d+\s*(-\s*\d+\s*)?$`, Types: []string{"string"}},
}}
