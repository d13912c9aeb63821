package parity_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

// The ids of the pak's service, and of the plan of the cases.
const (
	redisService = "8a3a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01"
	redisPlan    = "c0ffee00-0000-4000-8000-000000000001" // only the broker's catalog contains it
)

// newRedis returns a broker with the plan of most behaviours, dedicated.
func newRedis() *broker {
	GinkgoHelper()
	b := newBroker("redis")
	b.ServiceID, b.PlanID = redisService, redisPlan
	b.Deployment = serviceadapter.ServiceDeployment{
		DeploymentName: b.DeploymentName(),
		Releases: serviceadapter.ServiceReleases{release("some-release-name", "4", "redis-server", "health-check",
			"cleanup-data")},
		Stemcells: []serviceadapter.Stemcell{{OS: "some-stemcell-os", Version: "1234"}},
	}
	group := planGroup("redis-server", 1)
	group["vm_type"], group["persistent_disk_type"] = "dedicated-vm", "dedicated-disk"
	group["vm_extensions"] = []string{"dedicated-extensions"}
	group["networks"], group["azs"] = []string{"dedicated-network"}, []string{"dedicated-az1", "dedicated-az2"}
	errand := planGroup("health-check", 1)
	errand["lifecycle"] = "errand"
	b.Plan = object{
		"properties": object{"persistence": true}, "lifecycle_errands": object{},
		"instance_groups": []any{group, errand},
		"update": object{
			"canaries": 1, "canary_watch_time": "100-200", "update_watch_time": "100-200", "max_in_flight": 5,
			"serial": true,
		},
	}
	b.VMs = map[string][]string{"redis-server": {"127.0.0.1"}}
	return b
}

// migrated returns a broker with an instance of the hand-written adapter.
func migrated() *broker {
	GinkgoHelper()
	b := newRedis()
	b.Manifest = fixture("redis-adapter.yml")
	b.properties()["plan_secret"] = "plan-secret"
	b.with(object{"allowed_references": []string{"/some/special/path"}})
	odb := "((/odb/" + redisService + "/service-instance_some-instance-id/"
	b.Secrets = map[string]string{
		odb + "odb_managed_secret))": "HardcodedAdapterValue", odb + "plan_secret_key0a1b2c))": "plan-secret",
		"((/some/special/path))": "special", "((secret_pass))": "generated",
		"((instance_certificate.ca))": "CA", "((instance_certificate.certificate))": "CERT",
		"((instance_certificate.private_key))": "KEY",
	}
	return b
}

// redisJob returns the properties of the server after a creation with parameters.
func redisJob(ctx context.Context, b *broker, parameters object) object {
	GinkgoHelper()
	return b.generate(ctx, parameters).job()["redis"].(object)
}

// property returns a case about one property of the server after a creation.
func property(name string, parameters, properties object, key string, matcher types.GomegaMatcher) behaviour {
	return same(name, func(ctx context.Context) {
		b := newRedis()
		for name, item := range properties {
			b.properties()[name] = item
		}
		Expect(redisJob(ctx, b, parameters)[key]).To(matcher)
	})
}

// tree returns a case about the whole manifest after a creation.
func tree(name string, properties object, check func(generated product)) behaviour {
	return same(name, func(ctx context.Context) {
		b := newRedis()
		cleanup := planGroup("cleanup-data", 1)
		cleanup["lifecycle"] = "errand"
		b.Plan["instance_groups"] = append(b.planGroups(), cleanup)
		for name, item := range properties {
			b.properties()[name] = item
		}
		generated := b.deploy(ctx, nil)
		check(generated)
		b.expectNoPendingChanges(ctx)
	})
}

// features returns the key features of a manifest.
func features(generated product) any { return generated.tree["features"] }

// redisManifests returns the behaviours of generate-manifest.
func redisManifests() []behaviour {
	client := object{
		"client_id": "some-id", "client_secret": "some-secret", "name": "some-name", "scopes": "some-scope",
		"resource_ids": "some-resource",
		"authorities":  "uaa.resource", "authorized_grant_types": "client_credentials", "allowpublic": "false",
		"redirect_uri": "",
	}
	return []behaviour{
		same("sets the persistence property to be 'no' when using high memory plan", func(ctx context.Context) {
			b := newRedis()
			b.Plan = object{
				"properties": object{"persistence": false}, "lifecycle_errands": object{},
				"instance_groups": []any{planGroup("redis-server", 1)},
			}
			generated := b.generate(ctx, nil)
			Expect(generated.job()["redis"]).To(HaveKeyWithValue("persistence", "no"))
		}),
		differs("a plan with several servers", func(ctx context.Context) {
			b := newRedis()
			b.planGroups()[0].(object)["instances"] = 2
			expectRefused(b.ask(ctx, b.body(nil)),
				"the instance group redis-server must have 1 instance, the plan has 2; apps could not be bound")
		}),
		differs("logging validation of context and platform", func(ctx context.Context) {
			b := newRedis()
			for _, requested := range []any{object{}, object{"platform": ""}, object{"platform": "kubernetes"}} {
				got := b.ask(ctx, object{
					"context": requested, "parameters": object{}, "service_id": redisService,
					"plan_id": redisPlan,
				})
				Expect(got.Exit).To(Equal(0), got.Stderr)
				Expect(got.Stderr).To(Equal(unremarkable))
			}
		}),
		differs("logs the context of the request", func(ctx context.Context) {
			b := newRedis()
			Expect(b.ask(ctx, b.body(nil)).Stderr).To(Equal(unremarkable))
		}),
		same("contains only multiple instance groups when different errands have distinct colocation settings",
			func(ctx context.Context) {
				b := newRedis()
				b.properties()["colocated_errand"] = true
				b.Plan["lifecycle_errands"] = object{
					"post_deploy": []any{object{"name": "health-check"}},
					"pre_delete":  []any{object{"name": "cleanup-data", "instances": []string{"redis-server/0"}}},
				}
				Expect(b.generate(ctx, nil).groups()).To(
					Equal([]string{"redis-server: redis-server cleanup-data", "health-check: health-check"}))
			}),
		colocated("contains one instance group and multiple jobs with colocated_errand and a post_deploy errand",
			"post_deploy", "health-check"),
		colocated("contains one instance group and multiple jobs with colocated_errand and a pre_delete errand",
			"pre_delete", "cleanup-data"),
		tree("use_short_dns_addresses is true", object{"use_short_dns_addresses": true}, func(generated product) {
			Expect(features(generated)).To(HaveKeyWithValue("use_short_dns_addresses", true))
		}),
		tree("use_short_dns_addresses is false", object{"use_short_dns_addresses": false}, func(generated product) {
			Expect(features(generated)).To(HaveKeyWithValue("use_short_dns_addresses", false))
		}),
		tree("use_short_dns_addresses is not set", nil,
			func(generated product) { Expect(features(generated)).To(BeNil()) }),
		differs("service instance client passed directly", func(ctx context.Context) {
			b := newRedis()
			b.uaa = client
			generated := b.generate(ctx, nil)
			Expect(generated.job()["redis"].(object)["service_instance_client"]).To(Equal(object{
				"client_id": "some-id", "client_secret": "((odb_secret:uaa_client_secret))", "name": "some-name",
				"scopes":       "some-scope",
				"resource_ids": "some-resource", "authorities": "uaa.resource",
				"authorized_grant_types": "client_credentials",
			}))
			Expect(generated.Secrets).To(HaveKeyWithValue("uaa_client_secret", "some-secret"))
		}),
		same("service instance client passed through previous manifest", func(ctx context.Context) {
			b := newRedis()
			b.uaa = client
			before := b.deploy(ctx, nil).job()["redis"].(object)["service_instance_client"].(object)
			b.uaa = "null"
			b.expectNoPendingChanges(ctx)
			kept := redisJob(ctx, b, nil)["service_instance_client"].(object)
			Expect(b.Secrets[kept["client_secret"].(string)]).To(Equal("some-secret"))
			delete(before, "client_secret")
			delete(kept, "client_secret")
			Expect(kept).To(Equal(before))
		}),
		tree("always provides a shared link with redis server job", nil, func(generated product) {
			Expect(generated.group(0)["jobs"].([]any)[0]).To(HaveKeyWithValue("provides",
				object{"redis": object{"shared": true}}))
		}),
		tree("includes arbitrary feature in bosh features block", object{"something_completely_different": "and_now"},
			func(generated product) {
				Expect(features(generated)).To(HaveKeyWithValue("something_completely_different", "and_now"))
			}),
		tree("systest-sleep", object{"systest_errand_sleep": 10}, func(generated product) {
			Expect(generated.group(1)["properties"]).To(Equal(object{"health-check": object{"systest-sleep": 10}}))
			Expect(generated.group(2)["properties"]).To(Equal(object{"cleanup-data": object{"systest-sleep": 10}}))
		}),
		tree("failure override health-check", object{"systest_errand_failure_override": "health-check"},
			func(generated product) {
				Expect(generated.group(1)["properties"]).To(
					Equal(object{"health-check": object{"systest-failure-override": true}}))
			}),
		tree("failure override cleanup-data", object{"systest_errand_failure_override": "cleanup-data"},
			func(generated product) {
				Expect(generated.group(2)["properties"]).To(
					Equal(object{"cleanup-data": object{"systest-failure-override": true}}))
			}),
		property("maxclients parameter", object{"maxclients": 22.0}, nil, "maxclients", Equal(22)),
		property("maxclients of a creation without parameters", nil, nil, "maxclients", Equal(10000)),
		differs("vm_extensions_config: uses them", func(ctx context.Context) {
			b := newRedis()
			const config = "vm_extensions:\n- name: my-extension\n  cloud_properties: {count: 4, on: true}\n"
			generated := b.deploy(ctx, object{"vm_extensions_config": config + "azs: [{name: another's}]\n"})
			Expect(generated.group(0)["vm_extensions"]).To(Equal([]any{"dedicated-extensions", "my-extension"}))
			Expect(generated.Configs["cloud"]).To(MatchYAML(config), "no other part of the user's text")
			b.expectNoPendingChanges(ctx)
		}),
		same("vm_extensions_config: an empty string", func(ctx context.Context) {
			generated := newRedis().generate(ctx, object{"vm_extensions_config": ""})
			Expect(generated.group(0)["vm_extensions"]).To(Equal([]any{"dedicated-extensions"}))
			Expect(generated.Configs).To(BeEmpty())
		}),
		same("vm_extensions_config: opps", func(ctx context.Context) {
			b := newRedis()
			expectTold(b.ask(ctx, b.body(object{"vm_extensions_config": "opps"})), "vm_extensions_config must be")
		}),
		same("config not set: no previous manifest", func(ctx context.Context) {
			Expect(newRedis().generate(ctx, nil).group(0)["vm_extensions"]).To(Equal([]any{"dedicated-extensions"}))
		}),
		same("config not set: the previous manifest has the instance group", func(ctx context.Context) {
			Expect(migrated().generate(ctx, nil).group(0)["vm_extensions"]).To(
				Equal([]any{"dedicated-extensions", "my-extension"}))
		}),
		same("migrated instance group", func(ctx context.Context) {
			b := newRedis()
			b.planGroups()[0].(object)["name"] = "redis"
			b.planGroups()[0].(object)["migrated_from"] = []any{object{"name": "redis-server"}}
			b.with(object{"services": object{"redis": object{
				"provision_defaults": object{"redis_instance_group_name": "redis"},
			}}})
			generated := b.deploy(ctx, nil)
			Expect(generated.group(0)).To(And(HaveKeyWithValue("name", "redis"),
				HaveKeyWithValue("migrated_from", []any{object{"name": "redis-server"}})))
			b.expectNoPendingChanges(ctx)
		}),
		differs("a stemcell_name in the broker's configuration", func(ctx context.Context) {
			b := migrated()
			b.expectNoPendingChanges(ctx)
			b.Deployment.Stemcells[0].Name = "bosh-warden-boshlite"
			b.expectPendingChanges(ctx)
			b.deploy(ctx, nil)
			Expect(b.Manifest).To(ContainSubstring("name: bosh-warden-boshlite"))
			b.expectNoPendingChanges(ctx)
		}),
		same("no plan update block, no previous manifest", func(ctx context.Context) {
			b := newRedis()
			delete(b.Plan, "update")
			Expect(b.generate(ctx, nil).tree["update"]).To(Equal(object{
				"canaries": 4, "max_in_flight": 4, "canary_watch_time": "30000-240000",
				"update_watch_time": "30000-240000",
				"vm_strategy":       "delete-create",
			}))
		}),
		same("no plan update block, previous manifest", func(ctx context.Context) {
			b := newRedis()
			delete(b.Plan, "update")
			b.deploy(ctx, nil)
			Expect(b.generate(ctx, nil).tree["update"]).To(And(
				HaveKeyWithValue("canaries", 1), HaveKeyWithValue("max_in_flight", 1),
				HaveKeyWithValue("vm_strategy", "delete-create"),
			))
		}),
		same("sets the update block of the plan", func(ctx context.Context) {
			Expect(newRedis().generate(ctx, nil).tree["update"]).To(Equal(object{
				"canaries": 1, "max_in_flight": 5, "serial": true, "canary_watch_time": "100-200",
				"update_watch_time":                 "100-200",
				"initial_deploy_az_update_strategy": "parallel",
			}))
		}),
	}
}

// colocated returns a case about an errand that the plan colocates with the server.
func colocated(name, moment, errand string) behaviour {
	return same(name, func(ctx context.Context) {
		b := newRedis()
		b.properties()["colocated_errand"] = true
		b.Plan["instance_groups"] = b.planGroups()[:1]
		b.Plan["lifecycle_errands"] = object{moment: []any{object{
			"name":      errand,
			"instances": []string{"redis-server/0"},
		}}}
		Expect(b.generate(ctx, nil).groups()).To(Equal([]string{"redis-server: redis-server " + errand}))
	})
}
