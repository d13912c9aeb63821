package parity_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

// kafkaService is the id of the pak's service.
const kafkaService = "5b1d7f0a-93c4-4d7e-8a55-1f2e9c6b7a01"

// newKafka returns a broker with the plan of most behaviours.
func newKafka() *broker {
	GinkgoHelper()
	b := newBroker("kafka")
	b.ServiceID, b.PlanID = kafkaService, redisPlan
	b.Deployment = serviceadapter.ServiceDeployment{
		DeploymentName: b.DeploymentName(),
		Releases: serviceadapter.ServiceReleases{release("kafka", "9.2.1", "kafka_server", "zookeeper_server",
			"smoke_tests")},
		Stemcells: []serviceadapter.Stemcell{{OS: "Windows", Version: "3.1"}},
	}
	b.Plan = kafkaPlan(1, 1)
	b.VMs = map[string][]string{
		"kafka_server":     {"broker1ip", "broker2ip"},
		"zookeeper_server": {"zookeeper1ip", "zookeeper2ip"},
	}
	b.installCommands()
	return b
}

// kafkaPlan returns a plan with these numbers of VMs.
func kafkaPlan(brokers, zookeepers int) object {
	kafka, zookeeper := planGroup("kafka_server", brokers), planGroup("zookeeper_server", zookeepers)
	kafka["persistent_disk_type"], zookeeper["vm_type"], zookeeper["persistent_disk_type"] = "ten", "medium", "twenty"
	return object{"properties": object{}, "lifecycle_errands": object{}, "instance_groups": []any{kafka, zookeeper}}
}

// kafkaJob returns the properties of the job of the servers.
func (p product) kafkaJob() object { return p.job() }

// precedence returns a case about the source of the value of auto_create_topics. The previous value is a parameter of
// the creation, or is in the manifest of the hand-written adapter.
func precedence(name string, parameter, previous, plan any, want bool) behaviour {
	return same(name, func(ctx context.Context) {
		brokers := []*broker{newKafka()}
		if previous != nil {
			brokers[0].deploy(ctx, object{"auto_create_topics": previous})
			older := newKafka()
			older.Manifest = fmt.Sprintf("---\nproperties:\n  auto_create_topics: %t\n", previous)
			brokers = append(brokers, older)
		}
		for _, b := range brokers {
			if plan != nil {
				b.properties()["auto_create_topics"] = plan
			}
			parameters := object{}
			if parameter != nil {
				parameters["auto_create_topics"] = parameter
			}
			generated := b.deploy(ctx, parameters)
			Expect(generated.kafkaJob()).To(HaveKeyWithValue("auto_create_topics", want))
			b.expectNoPendingChanges(ctx)
		}
	})
}

// kafkaManifests returns the behaviours of generate-manifest.
func kafkaManifests() []behaviour {
	return []behaviour{
		same("exits with 0", func(ctx context.Context) {
			b := newKafka()
			Expect(b.ask(ctx, object{"parameters": object{}}).Exit).To(Equal(0))
		}),
		same("prints a manifest to stdout", func(ctx context.Context) {
			generated := newKafka().generate(ctx, nil)
			deployed := decode(strings.NewReplacer("auto_create_topics: false", "auto_create_topics: true",
				"replication_factor: 5", "replication_factor: 3").
				Replace(fixture("kafka-adapter.yml")))
			delete(generated.tree, "brokerpak") // the next case covers it
			Expect(generated.tree).To(Equal(deployed))
			Expect(generated.Secrets).To(BeEmpty())
		}),
		differs("prints a manifest to stdout, and nothing else", func(ctx context.Context) {
			Expect(newKafka().generate(ctx, nil).tree["brokerpak"]).To(BeAssignableToTypeOf(""))
		}),
		differs("parameters that the adapter ignores", func(ctx context.Context) {
			b := newKafka()
			expectTold(b.ask(ctx, b.body(object{"retention": 5})), `"retention" is not supported`)
		}),
		differs("a plan with zookeeper_server first", func(ctx context.Context) {
			b := newKafka()
			groups := b.planGroups()
			groups[0], groups[1] = groups[1], groups[0]
			groups[0].(object)["networks"] = []string{"one", "two"}
			generated := b.generate(ctx, nil)
			Expect(generated.groups()).To(HaveExactElements("kafka_server: kafka_server",
				HavePrefix("zookeeper_server:")))
			Expect(generated.kafkaJob()).To(HaveKeyWithValue("network", "net"))

			By("an instance that the adapter deployed with such a plan")
			deployed := decode(fixture("kafka-adapter.yml"))
			kafka := deployed["instance_groups"].([]any)[0].(object)
			delete(kafka["jobs"].([]any)[0].(object), "properties")
			deployed["instance_groups"] = []any{deployed["instance_groups"].([]any)[1], kafka}
			groups[0].(object)["networks"] = []string{"net"}
			b.Manifest = toJSON(deployed)
			b.expectPendingChanges(ctx)
		}),
		differs("default_replication_factor: any number", func(ctx context.Context) {
			b := newKafka()
			expectTold(b.ask(ctx, b.body(object{"default_replication_factor": 0})),
				`parameter "default_replication_factor" must be`)
		}),
		same("more zookeeper instances", func(ctx context.Context) {
			b := newKafka()
			b.deploy(ctx, nil)
			b.previousPlan, b.Plan = b.Plan, kafkaPlan(1, 3)
			Expect(b.generate(ctx, nil).group(1)).To(HaveKeyWithValue("instances", 3))
		}),
		same("same number of instances as before", func(ctx context.Context) {
			b := newKafka()
			b.deploy(ctx, nil)
			b.previousPlan = kafkaPlan(1, 1)
			b.generate(ctx, nil)
		}),
		precedence("auto_create_topics: as plan property", nil, nil, false, false),
		precedence("auto_create_topics: as arbitrary param", false, nil, nil, false),
		precedence("auto_create_topics: as previous manifest property", nil, false, nil, false),
		precedence("auto_create_topics: previous AND plan", nil, false, true, false),
		precedence("auto_create_topics: param AND plan", false, nil, true, false),
		precedence("auto_create_topics: param AND previous AND plan", true, false, false, true),
		same("default_replication_factor: plan property", func(ctx context.Context) {
			b := newKafka()
			b.properties()["default_replication_factor"] = 43.0
			Expect(b.generate(ctx, nil).kafkaJob()).To(HaveKeyWithValue("default_replication_factor", 43))
		}),
		same("default_replication_factor: param overrides the plan", func(ctx context.Context) {
			b := newKafka()
			b.properties()["default_replication_factor"] = 43
			Expect(b.generate(ctx, object{"default_replication_factor": 5.0}).kafkaJob()).To(
				HaveKeyWithValue("default_replication_factor", 5))
		}),
		differs("default_replication_factor: is forgotten by the next update", func(ctx context.Context) {
			b := newKafka()
			b.deploy(ctx, object{"default_replication_factor": 5})
			b.expectNoPendingChanges(ctx)
			Expect(b.generate(ctx, nil).kafkaJob()).To(HaveKeyWithValue("default_replication_factor", 5))
		}),
		differs("auto_create_topics: a parameter is a pending change for ever", func(ctx context.Context) {
			b := newKafka()
			b.deploy(ctx, object{"auto_create_topics": false})
			b.expectNoPendingChanges(ctx)
		}),
		same("service_adapter_fails is a property of the servers", func(ctx context.Context) {
			b := newKafka()
			b.properties()["service_adapter_fails"] = true
			Expect(b.generate(ctx, nil).kafkaJob()).To(HaveKeyWithValue("service_adapter_fails", true))
		}),
		same("network name in properties", func(ctx context.Context) {
			Expect(newKafka().generate(ctx, nil).kafkaJob()).To(HaveKeyWithValue("network", "net"))
		}),
		same("update block: all fields", func(ctx context.Context) {
			b := newKafka()
			update := object{
				"canaries": 2, "canary_watch_time": "1-2", "update_watch_time": "3-4", "max_in_flight": 5,
				"serial": true,
			}
			b.Plan["update"] = update
			Expect(b.generate(ctx, nil).tree["update"]).To(Equal(update))
		}),
		differs("update block: mandatory fields only", func(ctx context.Context) {
			b := newKafka()
			b.Plan["update"] = object{
				"canaries": 2, "canary_watch_time": "1-2", "update_watch_time": "3-4",
				"max_in_flight": 5,
			}
			Expect(b.generate(ctx, nil).tree["update"]).To(Equal(object{
				"canaries": 2, "canary_watch_time": "1-2", "update_watch_time": "3-4", "max_in_flight": 5,
				"serial": false,
			}))
		}),
		same("smoke-test errand included", func(ctx context.Context) {
			b := newKafka()
			errand := planGroup("smoke_tests", 1)
			errand["lifecycle"] = "errand"
			b.Plan["instance_groups"] = append(b.planGroups(), errand)
			generated := b.generate(ctx, nil)
			Expect(generated.groups()).To(Equal([]string{
				"kafka_server: kafka_server", "zookeeper_server: zookeeper_server",
				"smoke_tests: smoke_tests",
			}))
			Expect(generated.group(2)).To(HaveKeyWithValue("lifecycle", "errand"))
		}),
		same("an instance of the hand-written adapter is updated without a change", func(ctx context.Context) {
			b := newKafka()
			b.Manifest = fixture("kafka-adapter.yml")
			b.expectNoPendingChanges(ctx)
			b.deploy(ctx, nil)
			b.expectNoPendingChanges(ctx)
			Expect(b.generate(ctx, nil).kafkaJob()).To(And(
				HaveKeyWithValue("auto_create_topics", false), HaveKeyWithValue("default_replication_factor", 5),
			))
		}),
	}
}

// kafkaRefusals returns the behaviours for requests and plans that are rejected.
func kafkaRefusals() []behaviour {
	lacks := func(name, job string, releases ...serviceadapter.ServiceRelease) behaviour {
		return differs(name, func(ctx context.Context) {
			b := newKafka()
			b.Deployment.Releases = append(serviceadapter.ServiceReleases{}, releases...)
			got := b.ask(ctx, b.body(nil))
			expectTold(got, "job '"+job+"' not provided")
			Expect(got.Stderr).To(ContainSubstring("job '" + job + "' not provided"))
		})
	}
	networks := func(name string, names ...string) behaviour {
		return same(name, func(ctx context.Context) {
			b := newKafka()
			b.planGroups()[0].(object)["networks"] = append([]string{}, names...)
			expectRefused(b.ask(ctx, b.body(nil)),
				fmt.Sprintf("expected 1 network for kafka_server, got %d", len(names)))
		})
	}
	noGroup := func(name, missing string, kept ...any) behaviour {
		return differs(name, func(ctx context.Context) {
			b := newKafka()
			b.Plan["instance_groups"] = append([]any{}, kept...)
			expectTold(b.ask(ctx, b.body(nil)), contactOperator+`the plan lacks the instance group "`+missing+`"`)
		})
	}
	scaledIn := func(name string, before object) behaviour {
		return differs(name, func(ctx context.Context) {
			b := newKafka()
			b.deploy(ctx, nil)
			b.previousPlan = before
			got := b.ask(ctx, b.body(nil))
			expectTold(got, "cannot migrate to a smaller plan")
			Expect(got.Stderr).To(ContainSubstring("cannot migrate to a smaller plan"))
		})
	}
	malformed := func(name, key, text string) behaviour {
		return same(name, func(ctx context.Context) {
			b := newKafka()
			parameters := b.Generate(b.body(nil))
			parameters[key] = text
			Expect(b.call(ctx, "generate-manifest", parameters).Exit).NotTo(Equal(0))
		})
	}
	version := func(version string) func(b *broker) {
		return func(b *broker) { b.Deployment.Releases[0].Version = version }
	}
	return []behaviour{
		scaledIn("fewer kafka instances", kafkaPlan(2, 1)),
		scaledIn("less zookeeper instances", kafkaPlan(1, 2)),
		same("release 0.16.0", func(ctx context.Context) {
			b := newKafka()
			version("0.16.0")(b)
			b.generate(ctx, nil)
		}),
		differs("release lower than 0.16.0", func(ctx context.Context) {
			for _, lower := range []string{"0.15.0", "0.15.0-rc.1"} {
				b := newKafka()
				version(lower)(b)
				expectTold(b.ask(ctx, b.body(nil)),
					`the service requires the release of job "kafka_server" >= 0.16.0; the deployment has version `+
						lower)
			}
		}),
		differs("ignores invalid semver", func(ctx context.Context) {
			b := newKafka()
			for _, good := range []string{"not-semver", "1", "0.16", "2+dev.3"} {
				version(good)(b)
				Expect(b.ask(ctx, b.body(nil)).Stderr).To(Equal(unremarkable))
			}
			version("0.15")(b)
			expectTold(b.ask(ctx, b.body(nil)), "the deployment has version 0.15")
		}),
		differs("ignores the version latest", func(ctx context.Context) {
			b := newKafka()
			version("latest")(b)
			expectRefused(b.ask(ctx, b.body(nil)), `the version "latest"`)
		}),
		lacks("no kafka_server job", "kafka_server", release("kafka", "9.2.1", "zookeeper_server")),
		malformed("deployment is invalid JSON", "service_deployment", "{"),
		malformed("deployment is empty", "service_deployment", "{}"),
		lacks("no releases", "kafka_server"),
		malformed("plan is invalid JSON", "plan", "{"),
		noGroup("plan without instance groups", "kafka_server"),
		noGroup("no kafka_server instance group", "kafka_server", planGroup("zookeeper_server", 1)),
		noGroup("no zookeeper_server instance group", "zookeeper_server", planGroup("kafka_server", 1)),
		lacks("release lacks a job", "zookeeper_server", release("kafka", "9.2.1", "kafka_server")),
		networks("no network for kafka_server"),
		networks("two networks for kafka_server", "net", "other"),
	}
}
