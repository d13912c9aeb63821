package parity_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// installCommands installs testdata/topic-command as both commands of the pak. It records its calls in place of a Kafka
// server.
func (b *broker) installCommands() {
	GinkgoHelper()
	script, err := os.ReadFile("testdata/topic-command")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"topic_creator", "topic_deleter"} {
		Expect(os.WriteFile(filepath.Join(b.dir, name), script, 0o755)).To(Succeed())
	}
	b.env = []string{
		"TOPIC_CREATOR_COMMAND=" + filepath.Join(b.dir, "topic_creator"),
		"TOPIC_DELETER_COMMAND=" + filepath.Join(b.dir, "topic_deleter"),
	}
}

// fails makes the commands fail with a text for topics whose name begins with this prefix.
func (b *broker) fails(text, topics string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(b.dir, "fail"), []byte(text), 0o600)).To(Succeed())
	Expect(os.WriteFile(filepath.Join(b.dir, "fail-on"), []byte(topics), 0o600)).To(Succeed())
}

// works ends the effect of fails.
func (b *broker) works() {
	GinkgoHelper()
	Expect(os.Remove(filepath.Join(b.dir, "fail"))).To(Succeed())
}

// calls returns the calls of the commands so far, as "COMMAND|ZOOKEEPERS|TOPIC".
func (b *broker) calls() []string {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(b.dir, "calls"))
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	return strings.Fields(string(text))
}

// boundKafka returns a broker with a deployed instance.
func boundKafka(ctx context.Context) *broker {
	GinkgoHelper()
	b := newKafka()
	b.deploy(ctx, nil)
	return b
}

// bindTo creates a binding for a topic of the user.
func (b *broker) bindTo(ctx context.Context, topic string) answer {
	GinkgoHelper()
	return b.bind(ctx, "foo", object{"parameters": object{"topic": topic}})
}

// bindVariables returns the variables of the bind template.
func bindVariables(ctx context.Context, env ...string) object {
	GinkgoHelper()
	instance := filepath.Join(GinkgoT().TempDir(), "instance.yml")
	Expect(os.WriteFile(instance, []byte("vms: {kafka_server: [a], zookeeper_server: [b]}\n"), 0o600)).To(Succeed())
	evaluate := exec.CommandContext(ctx, adapterBinary, "pak", "evaluate", kit.Path("examples", "kafka"),
		"--action", "bind", "--request", "-", "--instance", instance)
	evaluate.Env, evaluate.Stdin = append([]string{}, env...), strings.NewReader("{}")
	output, err := evaluate.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	return decode(string(output))
}

// The addresses in the calls of the commands, and the error of Kafka for an existing topic.
const (
	zookeepers  = "zookeeper1ip,zookeeper2ip"
	topicExists = "Error while executing topic command: kafka.common.TopicExistsException: Topic exists"
)

// kafkaBindings returns the behaviours of create-binding and delete-binding.
func kafkaBindings() []behaviour {
	return []behaviour{
		same("valid bind", func(ctx context.Context) {
			Expect(credentials(boundKafka(ctx).bind(ctx, "foo", nil))).To(
				Equal(object{"bootstrap_servers": []any{"broker1ip:9092", "broker2ip:9092"}}))
		}),
		same("should call the create topic binary", func(ctx context.Context) {
			b := boundKafka(ctx)
			credentials(b.bind(ctx, "foo", nil))
			Expect(b.calls()).To(Equal([]string{"topic_creator|" + zookeepers + "|foo"}))
		}),
		differs("unknown params", func(ctx context.Context) {
			got := boundKafka(ctx).bind(ctx, "foo",
				object{"parameters": object{"unknown-param": "x", "another-random-param": "x"}})
			expectTold(got, `"another-random-param" is not supported`, `"unknown-param" is not supported`)
		}),
		differs("an empty binding id", func(ctx context.Context) {
			expectRefused(boundKafka(ctx).bind(ctx, "", nil), "no binding_id")
		}),
		same("topic creation fails", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.fails("no way", "foo")
			expectRefused(b.bind(ctx, "foo", nil), "no way")
			b.works()
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(41), "the topic does not exist any longer")
		}),
		same("an existing topic is a binding that exists", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.fails(topicExists, "foo")
			got := b.bind(ctx, "foo", nil)
			Expect(got.Exit).To(Equal(49), got.Stderr)
			Expect(b.calls()).To(Equal([]string{"topic_creator|" + zookeepers + "|foo"}),
				"another's topic is not deleted")
		}),
		same("topic param", func(ctx context.Context) {
			b := boundKafka(ctx)
			credentials(b.bindTo(ctx, "orders"))
			Expect(b.calls()).To(Equal([]string{
				"topic_creator|" + zookeepers + "|foo",
				"topic_creator|" + zookeepers + "|orders",
			}))
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(0))
			Expect(b.calls()[2:]).To(Equal([]string{"topic_deleter|" + zookeepers + "|foo"}),
				"the topic of the user is kept")
		}),
		differs("topic param that exists is a plain error", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.fails(topicExists, "orders")
			got := b.bindTo(ctx, "orders")
			expectTold(got, `The topic that parameter "topic" names exists already`)
			Expect(got.Stderr).To(ContainSubstring("TopicExistsException"))
			Expect(b.calls()[2:]).To(Equal([]string{"topic_deleter|" + zookeepers + "|foo"}),
				"the topic of the user is kept")
		}),
		differs("topic param: that command fails", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.fails("no way", "orders")
			expectRefused(b.bindTo(ctx, "orders"), "no way")
			Expect(b.calls()[2:]).To(Equal([]string{"topic_deleter|" + zookeepers + "|foo"}),
				"what the bind made is undone")
		}),
		differs("topic param: any text", func(ctx context.Context) {
			b := boundKafka(ctx)
			for _, topic := range []any{"--help", "-", ".", "..", "a b", "a/b", strings.Repeat("a", 250), 5} {
				expectTold(b.bind(ctx, "foo", object{"parameters": object{"topic": topic}}), `parameter "topic" must`)
			}
			Expect(b.calls()).To(BeEmpty())
			for i, topic := range []string{"...", ".a", "..-", "_", "a..b-", strings.Repeat("a", 249)} {
				id := fmt.Sprint("binding", i)
				credentials(b.bind(ctx, id, object{"parameters": object{"topic": topic}}))
				Expect(b.calls()).To(ContainElement("topic_creator|" + zookeepers + "|" + topic))
			}
		}),
		differs("topic param: null", func(ctx context.Context) {
			b := boundKafka(ctx)
			expectTold(b.bind(ctx, "foo", object{"parameters": object{"topic": nil}}),
				`parameter "topic" must be a string, not null`)
			Expect(b.calls()).To(BeEmpty())
		}),
		same("the commands have the defaults of BOSH's package", func(ctx context.Context) {
			Expect(bindVariables(ctx)).To(And(
				HaveKeyWithValue("creator", "/var/vcap/packages/topic_manager/topic_creator"),
				HaveKeyWithValue("deleter", "/var/vcap/packages/topic_manager/topic_deleter"),
			))
			Expect(bindVariables(ctx, "TOPIC_CREATOR_COMMAND=/a", "TOPIC_DELETER_COMMAND=/b")).To(And(
				HaveKeyWithValue("creator", "/a"), HaveKeyWithValue("deleter", "/b"),
			))
		}),
		same("the commands get the adapter's environment", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.env = append(b.env, "JAVA_HOME=/var/vcap/packages/java", "PATH=/var/vcap/packages/java/bin:/bin")
			credentials(b.bind(ctx, "foo", nil))
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(0))
			environment, err := os.ReadFile(filepath.Join(b.dir, "environment"))
			Expect(err).NotTo(HaveOccurred())
			Expect(strings.Split(strings.TrimSpace(string(environment)), "\n")).To(HaveEach(
				MatchRegexp(
					`^/var/vcap/packages/java\|(.*:)?/var/vcap/packages/java/bin:/bin:/usr/local/bin:/usr/bin:/bin$`)))
		}),
		differs("the commands get all of the adapter's environment", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.env = append(b.env, "BROKER_PASSWORD=hush")
			credentials(b.bind(ctx, "foo", nil))
			Expect(filepath.Join(b.dir, "variables")).To(BeARegularFile())
			variables, err := os.ReadFile(filepath.Join(b.dir, "variables"))
			Expect(err).NotTo(HaveOccurred())
			Expect(string(variables)).To(And(ContainSubstring("TOPIC=foo"), Not(ContainSubstring("BROKER_PASSWORD"))))
		}),
		same("no kafka VMs", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.VMs["kafka_server"] = nil
			expectRefused(b.bind(ctx, "foo", nil), `no VMs for instance group "kafka_server"`)
		}),
		same("no zookeeper VMs", func(ctx context.Context) {
			b := boundKafka(ctx)
			b.VMs["zookeeper_server"] = nil
			expectRefused(b.bind(ctx, "foo", nil), `no VMs for instance group "zookeeper_server"`)
		}),
		differs("logs the bind resource", func(ctx context.Context) {
			got := boundKafka(ctx).bind(ctx, "foo",
				object{"bind_resource": object{"app_guid": "my-app-guid", "route": "my-route"}})
			Expect(got.Stderr).To(And(ContainSubstring("app_guid=my-app-guid"), Not(ContainSubstring("my-route"))))
		}),
		same("unbind: delete existing", func(ctx context.Context) {
			b := boundKafka(ctx)
			credentials(b.bind(ctx, "foo", nil))
			b.VMs["zookeeper_server"] = []string{"moved"}
			got := b.unbind(ctx, "foo")
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(got.Stdout).To(BeEmpty())
			Expect(b.calls()[1:]).To(Equal([]string{"topic_deleter|moved|foo"}))
		}),
		differs("unbind: no zookeeper VMs", func(ctx context.Context) {
			b := boundKafka(ctx)
			credentials(b.bind(ctx, "foo", nil))
			b.VMs["zookeeper_server"] = nil
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(0))
			Expect(b.calls()[1:]).To(Equal([]string{"topic_deleter|" + zookeepers + "|foo"}))
		}),
		differs("unbind: a binding that another adapter made", func(ctx context.Context) {
			b := boundKafka(ctx)
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(41))
			Expect(b.calls()).To(BeEmpty())
		}),
		same("unbind: binding cannot be found", func(ctx context.Context) {
			b := boundKafka(ctx)
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(41))
		}),
		same("unbind: the topic does not exist any more", func(ctx context.Context) {
			b := boundKafka(ctx)
			credentials(b.bind(ctx, "foo", nil))
			b.fails("Topic foo does not exist on ZK path", "foo")
			Expect(b.unbind(ctx, "foo").Exit).To(Equal(41))
		}),
		same("unbind: the command fails", func(ctx context.Context) {
			b := boundKafka(ctx)
			credentials(b.bind(ctx, "foo", nil))
			b.fails("no way", "foo")
			expectRefused(b.unbind(ctx, "foo"), "no way")
		}),
		same("dashboard", func(ctx context.Context) {
			b := boundKafka(ctx)
			got := b.call(ctx, "dashboard-url", object{"instance_id": b.ID, "plan": b.Plan, "manifest": b.Manifest})
			Expect(got.Stdout).To(MatchJSON(`{"dashboard_url": "http://example_dashboard.com/some-instance-id"}`))
		}),
	}
}

// kafkaSchemas returns the behaviours of generate-plan-schemas.
func kafkaSchemas() []behaviour {
	const draft = "http://json-schema.org/draft-04/schema#"
	schemas := func(ctx context.Context, b *broker) object {
		GinkgoHelper()
		got := b.call(ctx, "generate-plan-schemas", object{"plan": b.Plan})
		Expect(got.Exit).To(Equal(0), got.Stderr)
		return decode(got.Stdout)
	}
	schema := func(all object, of, action string) object {
		return all[of].(object)[action].(object)["parameters"].(object)
	}
	return []behaviour{
		differs("schemas", func(ctx context.Context) {
			all := schemas(ctx, newKafka())
			for _, action := range []string{"create", "update"} {
				auto := object{
					"type": "boolean", "description": "Auto create topics", "title": "Auto Create Topics",
					"default": true,
				}
				replication := object{
					"type": "integer", "description": "Replication factor", "title": "Default Replication Factor",
					"default": 3, "minimum": 1,
				}
				if action == "update" { // parameters that are omitted keep their values
					auto["type"], replication["type"] = []any{"boolean", "null"}, []any{"integer", "null"}
					delete(auto, "default")
					delete(replication, "default")
				}
				Expect(schema(all, "service_instance", action)).To(Equal(object{
					"$schema": draft, "type": "object", "additionalProperties": false,
					"properties": object{"auto_create_topics": auto, "default_replication_factor": replication},
				}), action)
			}
			Expect(schema(all, "service_binding", "create")).To(Equal(object{
				"$schema": draft, "type": "object", "additionalProperties": false, "properties": object{"topic": object{
					"type": "string", "description": "The name of the topic", "title": "Topic", "default": "",
					"maxLength": 249,
					"pattern":   `^(\.{3,}|\.*[A-Za-z0-9_][A-Za-z0-9._-]*|\.+-[A-Za-z0-9._-]*)?$`,
				}},
			}))
		}),
		differs("schemas: fails with error if service_adapter_fails", func(ctx context.Context) {
			b := newKafka()
			b.properties()["service_adapter_fails"] = true
			Expect(schemas(ctx, b)).To(HaveKey("service_instance"))
		}),
		differs("schemas: schema_to_return", func(ctx context.Context) {
			b := newKafka()
			b.properties()["schema_to_return"] = `{` +
				`"$schema": "http://json-schema.org/draft-04/schema#", "type": "object"}`
			Expect(schema(schemas(ctx, b), "service_instance",
				"create")["properties"]).To(HaveKey("auto_create_topics"))
		}),
	}
}
