package parity_test

import (
	"context"
	"maps"
	"slices"
	"strings"

	. "github.com/onsi/gomega"
)

// bound returns a broker with an instance that the pak deployed.
func bound(ctx context.Context) *broker {
	b := newRedis()
	b.with(object{"allowed_references": []string{"/foo"}})
	b.deploy(ctx, object{"credhub_secret_path": "/foo"})
	b.Secrets["((/foo))"] = "foo's value"
	return b
}

// redisBindings returns the behaviours of the commands other than generate-manifest.
func redisBindings() []behaviour {
	unresolved := func(name, reference string) behaviour {
		return same(name, func(ctx context.Context) {
			b := bound(ctx)
			delete(b.Secrets, reference)
			expectTold(b.bind(ctx, "some-binding", nil), "the broker sent no value for "+reference)
		})
	}
	return []behaviour{
		differs("binding: without secrets in the manifest", func(ctx context.Context) {
			b := newRedis()
			b.with(object{"secure_manifests": false})
			b.deploy(ctx, nil)
			b.noSecrets = true
			password := b.secretOf("password")
			Expect(credentials(b.bind(ctx, "some-binding", nil))).To(Equal(object{
				"host": "127.0.0.1", "port": 6379.0, "password": password,
				"odb_managed_secret": "HardcodedAdapterValue",
				"scheme":             "redis", "uri": "redis://:" + password + "@127.0.0.1:6379",
			}))
		}),
		same("binding: with ((secret)) resolved", func(ctx context.Context) {
			Expect(credentials(bound(ctx).bind(ctx, "some-binding", nil))).To(And(
				HaveKeyWithValue("secret", "foo's value"), HaveKeyWithValue("generated_secret", "value-of-secret_pass"),
				HaveKeyWithValue("odb_managed_secret", "HardcodedAdapterValue"),
			))
		}),
		unresolved("binding: ((foo)) not resolved", "((/foo))"),
		unresolved("binding: secret_pass not interpolated", "((secret_pass))"),
		same("binding: managed_secret not interpolated", func(ctx context.Context) {
			b := bound(ctx)
			delete(b.Secrets, b.secretOf("odb_managed_secret"))
			expectTold(b.bind(ctx, "some-binding", nil), "the broker sent no value for ((/odb/")
		}),
		same("binding: malformed (())", func(ctx context.Context) {
			b := bound(ctx)
			b.Manifest = strings.Replace(b.Manifest, "((/foo))", "(())", 1)
			expectTold(b.bind(ctx, "some-binding", nil), "the broker sent no value for (())")
		}),
		differs("binding: malformed foo", func(ctx context.Context) {
			b := bound(ctx)
			b.Manifest = strings.Replace(b.Manifest, "((/foo))", "foo", 1)
			Expect(credentials(b.bind(ctx, "some-binding", nil))).To(HaveKeyWithValue("secret", "foo"))
		}),
		differs("binding: the broker's secrets are passed on", func(ctx context.Context) {
			generated := credentials(bound(ctx).bind(ctx, "some-binding", nil))
			Expect(slices.Collect(maps.Keys(generated))).To(ConsistOf(
				"host", "port", "password", "generated_secret", "odb_managed_secret", "secret", "scheme", "uri",
			))
		}),
		differs("binding: parameters", func(ctx context.Context) {
			expectTold(bound(ctx).bind(ctx, "some-binding", object{"parameters": object{"foo": "bar"}}),
				`parameter "foo" is not supported; no parameters are supported`)
		}),
		differs("binding: could not find the path of a secret", func(ctx context.Context) {
			b := bound(ctx)
			b.Manifest = strings.Replace(b.Manifest, "ca_cert:", "no_cert:", 1)
			Expect(b.bind(ctx, "some-binding", nil).Exit).To(Equal(0))
		}),
		same("produces a binding containing a DNS address", func(ctx context.Context) {
			b := bound(ctx)
			b.DNS = map[string]string{"foo": "a.b.c"}
			Expect(credentials(b.bind(ctx, "some-binding", nil))).To(HaveKeyWithValue("dns_addresses",
				object{"foo": "a.b.c"}))
		}),
		same("returns the backup agent url", func(ctx context.Context) {
			got := bound(ctx).bind(ctx, "some-binding", object{"bind_resource": object{"backup_agent": true}})
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(got.Stdout).To(MatchJSON(`{"backup_agent_url": "http://www.example.com/backup-agent-url"}`))
		}),
		same("binding: has no error", func(ctx context.Context) {
			Expect(bound(ctx).bind(ctx, "some-binding", nil).Exit).To(Equal(0))
		}),
		same("returns the password from the manifest", func(ctx context.Context) {
			b := bound(ctx)
			Expect(credentials(b.bind(ctx, "some-binding", nil))).To(HaveKeyWithValue("password",
				b.Secrets[b.secretOf("password")]))
		}),
		same("returns the host from the vms", func(ctx context.Context) {
			Expect(credentials(bound(ctx).bind(ctx, "some-binding", nil))).To(And(HaveKeyWithValue("host", "127.0.0.1"),
				HaveKeyWithValue("port", 6379.0)))
		}),
		same("topology has no redis-server key", func(ctx context.Context) {
			b := bound(ctx)
			b.VMs = map[string][]string{"other": {"127.0.0.1"}}
			expectRefused(b.bind(ctx, "some-binding", nil), `no VMs for instance group "redis-server"`)
		}),
		same("topology has zero instances", func(ctx context.Context) {
			b := bound(ctx)
			b.VMs = map[string][]string{"redis-server": {}}
			expectRefused(b.bind(ctx, "some-binding", nil), `no VMs for instance group "redis-server"`)
		}),
		same("topology has two instances", func(ctx context.Context) {
			b := bound(ctx)
			b.VMs = map[string][]string{"redis-server": {"127.0.0.1", "127.0.0.2"}}
			expectRefused(b.bind(ctx, "some-binding", nil),
				"expected redis-server instance group to have only 1 instance, got 2")
		}),
		same("topology has two instance groups", func(ctx context.Context) {
			b := bound(ctx)
			b.VMs["other"] = []string{"127.0.0.2"}
			expectRefused(b.bind(ctx, "some-binding", nil), "expected 1 instance group in the Redis deployment, got 2")
		}),
		same("topology has no instance groups", func(ctx context.Context) {
			b := bound(ctx)
			b.VMs = map[string][]string{}
			expectRefused(b.bind(ctx, "some-binding", nil), "no VMs for instance group")
		}),
		same("unbinding: doesn't return an error when it has the right credentials", func(ctx context.Context) {
			b := bound(ctx)
			credentials(b.bind(ctx, "some-binding", nil))
			got := b.unbind(ctx, "some-binding")
			Expect(got.Exit).To(Equal(0), got.Stderr)
			Expect(got.Stdout).To(BeEmpty())
		}),
		differs("unbinding: returns an error when it doesn't have the right credentials",
			unbindsWithSecrets(map[string]string{"((other))": "x"})),
		differs("unbinding: returns an error when the provided credential is empty",
			unbindsWithSecrets(map[string]string{"((secret_pass))": ""})),
		same("unbinding: does not error when no secrets are passed", unbindsWithSecrets(nil)),
		differs("unbinding: errors when any secrets are passed and secure manifests are off",
			func(ctx context.Context) {
				b := newRedis()
				b.with(object{"secure_manifests": false})
				b.deploy(ctx, nil)
				credentials(b.bind(ctx, "some-binding", nil))
				Expect(b.unbind(ctx, "some-binding").Exit).To(Equal(0))
			}),
		differs("unbinding: logs DNSAddresses", func(ctx context.Context) {
			b := bound(ctx)
			b.DNS = map[string]string{"foo": "a.b.c"}
			credentials(b.bind(ctx, "some-binding", nil))
			Expect(b.unbind(ctx, "some-binding").Stderr).NotTo(ContainSubstring("a.b.c"))
		}),
		differs("the configuration cannot be read", func(ctx context.Context) {
			b := newRedis()
			b.with(object{"paks": []string{b.dir + "/none"}})
			expectRefused(b.ask(ctx, b.body(nil)), "none")
		}),
		same("dashboard URL", func(ctx context.Context) {
			b := bound(ctx)
			got := b.call(ctx, "dashboard-url", object{"instance_id": b.ID, "plan": b.Plan, "manifest": b.Manifest})
			Expect(got.Stdout).To(MatchJSON(`{"dashboard_url": "https://example.com/dashboard/some-instance-id"}`))
		}),
		differs("has no plan schemas", func(ctx context.Context) {
			got := newRedis().call(ctx, "generate-plan-schemas",
				object{"plan": object{
					"instance_groups": []any{planGroup("redis-server", 1)},
					"properties":      object{"persistence": true},
				}})
			Expect(got.Exit).To(Equal(0), got.Stderr)
			instance := decode(got.Stdout)["service_instance"].(object)["create"].(object)["parameters"].(object)
			Expect(instance).To(HaveKeyWithValue("additionalProperties", false))
			Expect(slices.Collect(maps.Keys(instance["properties"].(object)))).To(ConsistOf("credhub_secret_path",
				"maxclients", "odb_managed_secret", "tls_enabled", "vm_extensions_config"))
		}),
	}
}

// unbindsWithSecrets returns a check that a binding is deleted with these secrets from the broker. If they are nil, the
// broker sends none.
func unbindsWithSecrets(secrets map[string]string) func(ctx context.Context) {
	return func(ctx context.Context) {
		b := bound(ctx)
		credentials(b.bind(ctx, "some-binding", nil))
		b.Secrets, b.noSecrets = secrets, secrets == nil
		got := b.unbind(ctx, "some-binding")
		Expect(got.Exit).To(Equal(0), got.Stderr)
	}
}
