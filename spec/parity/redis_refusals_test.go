package parity_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

// redisRefusals returns the behaviours for requests and plans that are rejected.
func redisRefusals() []behaviour {
	rejectedForUser := func(name string, change func(b *broker), texts ...string) behaviour {
		return same(name, func(ctx context.Context) {
			b := newRedis()
			change(b)
			expectTold(b.ask(ctx, b.body(nil)), texts...)
		})
	}
	lacks := func(job string) func(b *broker) {
		return func(b *broker) {
			jobs := strings.Fields(strings.Replace("redis-server health-check cleanup-data", job, "", 1))
			cleanup := planGroup("cleanup-data", 1)
			b.Plan["instance_groups"] = append(b.planGroups(), cleanup)
			b.Deployment.Releases = serviceadapter.ServiceReleases{release("some-release-name", "4", jobs...)}
		}
	}
	return []behaviour{
		same("invalid arbitrary parameters", func(ctx context.Context) {
			b := newRedis()
			got := b.ask(ctx, b.body(object{"foo": "bar", "baz": "barz", "maxclients": 22}))
			expectTold(got, `"baz"`, `"foo"`)
			Expect(got.Stdout).NotTo(ContainSubstring(`parameter "maxclients"`))
		}),
		rejectedForUser("health-check job missing from releases", lacks("health-check"),
			"job 'health-check' not provided by any release"),
		rejectedForUser("redis-server job missing from releases", lacks("redis-server"),
			"job 'redis-server' not provided by any release"),
		rejectedForUser("cleanup-data job missing from releases", lacks("cleanup-data"),
			"job 'cleanup-data' not provided by any release"),
		rejectedForUser("redis job has no release", func(b *broker) {
			b.Deployment.Releases = serviceadapter.ServiceReleases{release("some-release-name", "4", "health-check")}
		}, "job 'redis-server' not provided by any release"),
		rejectedForUser("job in two releases", func(b *broker) {
			b.Deployment.Releases = append(b.Deployment.Releases, release("some-other-release", "4", "redis-server"))
		},
			"job 'redis-server' is provided by several releases of the deployment: some-other-release, "+
				"some-release-name"),
		same("plan lacks the redis-server instance group", func(ctx context.Context) {
			b := newRedis()
			b.Plan["instance_groups"] = b.planGroups()[1:]
			for _, persistence := range []bool{true, false} {
				b.properties()["persistence"] = persistence
				expectTold(b.ask(ctx, b.body(nil)), contactOperator+`the plan lacks the instance group "redis-server"`)
			}
		}),
		same("unknown configured instance group name", func(ctx context.Context) {
			b := newRedis()
			b.properties()["persistence"], b.properties()["redis_instance_group_name"] = false, "foo"
			expectTold(b.ask(ctx, b.body(nil)),
				contactOperator+`the plan has an instance group "redis-server" that is not a group of the service`)
		}),
		same("plan lacks persistence", func(ctx context.Context) {
			b := newRedis()
			delete(b.properties(), "persistence")
			expectRefused(b.ask(ctx, b.body(nil)), `property "persistence" of the plan`, "is required")
		}),
		differs("new version is no version", func(ctx context.Context) {
			b := migrated()
			b.Deployment.Releases[0].Version = "oi"
			Expect(b.ask(ctx, b.body(nil)).Exit).To(Equal(0))
			b.Deployment.Releases[0].Version = "o i"
			expectTold(b.ask(ctx, b.body(nil)), `"o i" is not a version`)
		}),
		differs("old version is no version", func(ctx context.Context) {
			b := migrated()
			b.Manifest = strings.Replace(b.Manifest, `version: "4"`, `version: "oi"`, 1)
			expectTold(b.ask(ctx, b.body(nil)), "version 4 is lower than the deployed version oi")
		}),
		same("old manifest lacks the release name", func(ctx context.Context) {
			b := migrated()
			b.Manifest = strings.ReplaceAll(b.Manifest, "some-release-name", "renamed")
			expectTold(b.ask(ctx, b.body(nil)),
				`release "some-release-name", which provides the job "redis-server", is not in the previous manifest`)
		}),
		differs("an instance group that the adapter does not know", func(ctx context.Context) {
			b := newRedis()
			b.Plan["instance_groups"] = append(b.planGroups(), planGroup("sentinel", 1))
			expectTold(b.ask(ctx, b.body(nil)),
				contactOperator+`the plan has an instance group "sentinel" that is not a group of the service`)
		}),
		differs("a lifecycle errand without an instance group and without instances", func(ctx context.Context) {
			b := newRedis()
			b.Plan["lifecycle_errands"] = object{"post_deploy": []any{object{"name": "smoke-tests"}}}
			expectRefused(b.ask(ctx, b.body(nil)),
				`the plan's lifecycle errand "smoke-tests" is neither an instance group nor a job of this plan`)
		}),
		differs("an instance group without networks", func(ctx context.Context) {
			b := newRedis()
			b.planGroups()[0].(object)["networks"] = []string{}
			expectRefused(b.ask(ctx, b.body(nil)),
				"/instance_groups/name=redis-server/networks must have at least 1 item")
		}),
		differs("persistence without a disk", func(ctx context.Context) {
			b := newRedis()
			delete(b.planGroups()[0].(object), "persistent_disk_type")
			expectRefused(b.ask(ctx, b.body(nil)), "plan property persistence needs a persistent_disk_type")
		}),
		differs("maxclients that no server has", func(ctx context.Context) {
			for _, count := range []any{0, 60001, 22.5, "22"} {
				b := newRedis()
				expectTold(b.ask(ctx, b.body(object{"maxclients": count})), `parameter "maxclients" must be`)
			}
		}),
		differs("vm_extensions_config without vm_extensions", func(ctx context.Context) {
			b := newRedis()
			expectTold(b.ask(ctx, b.body(object{"vm_extensions_config": "azs: []"})),
				"vm_extensions_config must be a cloud config with vm_extensions")
		}),
		differs("vm_extensions_config: extensions without names", func(ctx context.Context) {
			for _, config := range []string{
				"vm_extensions:", "vm_extensions: 5", "vm_extensions: [5]", "vm_extensions: [{cloud_properties: {}}]",
				"\"x\nvm_extensions:\"",
			} {
				b := newRedis()
				expectTold(b.ask(ctx, b.body(object{"vm_extensions_config": config})),
					`parameter "vm_extensions_config" cannot be used: `)
			}
			for _, name := range []string{"", "~", "''", "[a]", "{a: b}"} {
				b := newRedis()
				got := b.ask(ctx, b.body(object{"vm_extensions_config": "vm_extensions:\n- name: " + name}))
				expectTold(got, "vm_extensions_config: the name of an extension must be a text")
			}
		}),
		same("vm_extensions_config that is no YAML", func(ctx context.Context) {
			b := newRedis()
			expectTold(b.ask(ctx, b.body(object{"vm_extensions_config": "vm_extensions: ["})),
				`parameter "vm_extensions_config" cannot be used: the text is not YAML`)
		}),
	}
}

// redisVersions returns the cases of a table of versions: a release must not be downgraded.
func redisVersions() []behaviour {
	var all []behaviour
	for _, row := range []struct {
		before, after string
		lower         bool
	}{
		{"3", "3", false},
		{"3", "4", false},
		{"3", "2", true},
		{"3.1", "3.1", false},
		{"3.2", "3.10", false},
		{"3.10", "3.2", true},
		{"3", "3.0", false},
		{"3.0", "3", false},
		{"3", "3.1", false},
		{"3.1", "3", true},
		{"0+dev.2", "0+dev.2", false},
		{"0+dev.2", "0+dev.10", false},
		{"0+dev.10", "0+dev.2", true},
		{"1.1+dev.2", "1.1+dev.2", false},
		{"1.1+dev.2", "1.1+dev.10", false},
		{"1.1+dev.10", "1.1+dev.2", true},
		{"1.2", "2.1", false},
		{"2.1", "1.2", true},
		{"1+dev.2", "2+dev.1", false},
		{"2+dev.1", "1+dev.2", true},
		{"0.1+dev.2", "0.2+dev.1", false},
		{"0.2+dev.1", "0.1+dev.2", true},
		{"0+dev.1", "1", false},
		{"1", "1+dev.1", false},
		{"2", "1+dev.1", true},
		{"0.1+dev.8-fa37909", "0.1+dev.9-0000000", false},
	} {
		all = append(all,
			same(fmt.Sprintf("release version %s after %s", row.after, row.before), func(ctx context.Context) {
				b := migrated()
				b.Manifest = strings.Replace(b.Manifest, `version: "4"`, fmt.Sprintf("version: %q", row.before), 1)
				b.Deployment.Releases[0].Version = row.after
				got := b.ask(ctx, b.body(nil))
				if row.lower {
					expectTold(got, "version "+row.after+" is lower than the deployed version "+row.before)
					return
				}
				Expect(got.Exit).To(Equal(0), got.Stderr)
			}))
	}
	return append(all, differs("release version latest after latest", func(ctx context.Context) {
		b := migrated()
		b.Manifest = strings.Replace(b.Manifest, `version: "4"`, "version: latest", 1)
		expectRefusedLatest(ctx, b)
		b.Deployment.Releases[0].Version = "4"
		Expect(b.ask(ctx, b.body(nil)).Exit).To(Equal(0))
	}))
}

// expectRefusedLatest asserts that the version "latest" of a release is rejected.
func expectRefusedLatest(ctx context.Context, b *broker) {
	b.Deployment.Releases[0].Version = "latest"
	expectRefused(b.ask(ctx, b.body(nil)), `the version "latest"`)
}
