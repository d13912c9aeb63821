package parity_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

// redisRefusals are the behaviours about requests and plans that cannot be met.
func redisRefusals() []behaviour {
	refusal := func(name string, change func(b *broker), texts ...string) behaviour {
		return same(name, func(ctx context.Context) {
			b := newRedis()
			change(b)
			expectRefused(b.ask(ctx, b.body(nil)), texts...)
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
	const noRelease = "no release of the deployment provides the job "
	all := []behaviour{
		same("invalid arbitrary parameters", func(ctx context.Context) {
			b := newRedis()
			expectTold(b.ask(ctx, b.body(object{"foo": "bar", "baz": "barz", "maxclients": 22})), `"baz"`, `"foo"`)
		}),
		refusal("health-check job missing from releases", lacks("health-check"), noRelease+`"health-check"`),
		refusal("redis-server job missing from releases", lacks("redis-server"), noRelease+`"redis-server"`),
		refusal("cleanup-data job missing from releases", lacks("cleanup-data"), noRelease+`"cleanup-data"`),
		refusal("redis job has no release", func(b *broker) {
			b.Deployment.Releases = serviceadapter.ServiceReleases{release("some-release-name", "4", "health-check")}
		}, noRelease+`"redis-server"`),
		refusal("job in two releases", func(b *broker) {
			b.Deployment.Releases = append(b.Deployment.Releases, release("some-other-release", "4", "redis-server"))
		}, "redis-server", "some-other-release, some-release-name"),
		differs("plan lacks the redis-server instance group", func(ctx context.Context) {
			b := newRedis()
			b.Plan["instance_groups"] = b.planGroups()[1:]
			b.properties()["persistence"] = false
			expectRefused(b.ask(ctx, b.body(nil)), `the plan lacks the instance group "redis-server"`)
		}),
		differs("unknown configured instance group name", func(ctx context.Context) {
			b := newRedis()
			b.properties()["persistence"], b.properties()["redis_instance_group_name"] = false, "foo"
			expectRefused(b.ask(ctx, b.body(nil)), `the plan has an instance group "redis-server" that the service does not know`)
		}),
		refusal("plan lacks persistence", func(b *broker) { delete(b.properties(), "persistence") }, "persistence"),
		differs("new version is no version", func(ctx context.Context) {
			b := migrated()
			b.Deployment.Releases[0].Version = "oi"
			Expect(b.ask(ctx, b.body(nil)).Exit).To(Equal(0))
			b.Deployment.Releases[0].Version = "o i"
			expectRefused(b.ask(ctx, b.body(nil)), `"o i" is not a version`)
		}),
		same("old version is no version", func(ctx context.Context) {
			b := migrated()
			b.Manifest = strings.Replace(b.Manifest, `version: "4"`, `version: "oi"`, 1)
			expectRefused(b.ask(ctx, b.body(nil)), "lower than the deployed version oi")
		}),
		same("old manifest lacks the release name", func(ctx context.Context) {
			b := migrated()
			b.Manifest = strings.ReplaceAll(b.Manifest, "some-release-name", "renamed")
			expectRefused(b.ask(ctx, b.body(nil)), `release "some-release-name", which provides the job "redis-server", is not in the previous manifest`)
		}),
	}
	return all
}

// redisVersions is the table of versions: a release must not become older.
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
		all = append(all, same(fmt.Sprintf("release version %s after %s", row.after, row.before), func(ctx context.Context) {
			b := migrated()
			b.Manifest = strings.Replace(b.Manifest, `version: "4"`, fmt.Sprintf("version: %q", row.before), 1)
			b.Deployment.Releases[0].Version = row.after
			got := b.ask(ctx, b.body(nil))
			if row.lower {
				expectRefused(got, "version "+row.after+" is lower than the deployed version "+row.before)
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

func expectRefusedLatest(ctx context.Context, b *broker) {
	b.Deployment.Releases[0].Version = "latest"
	expectRefused(b.ask(ctx, b.body(nil)), `the version "latest"`)
}
