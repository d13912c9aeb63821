package parity_test

import (
	"context"
	"strings"

	. "github.com/onsi/gomega"
)

// redisSecrets returns the behaviours for secrets, and for values of the previous manifest.
func redisSecrets() []behaviour {
	return []behaviour{
		same("odb_managed_secret parameter", func(ctx context.Context) {
			Expect(newRedis().generate(ctx, object{"odb_managed_secret": "foo"}).Secrets).To(
				HaveKeyWithValue("odb_managed_secret", "foo"))
		}),
		same("always has an odb_managed_secret", func(ctx context.Context) {
			generated := newRedis().generate(ctx, nil)
			Expect(generated.Secrets).To(HaveKeyWithValue("odb_managed_secret", "HardcodedAdapterValue"))
			Expect(generated.job()["redis"]).To(HaveKeyWithValue("odb_managed_secret",
				"((odb_secret:odb_managed_secret))"))
		}),
		differs("password of a new instance", func(ctx context.Context) {
			generated := newRedis().generate(ctx, nil)
			Expect(generated.job()["redis"]).To(HaveKeyWithValue("password", "((odb_secret:redis_password))"))
			Expect(generated.Secrets["redis_password"]).To(MatchRegexp("^[A-Za-z0-9]{32}$"))
		}),
		differs("credhub_secret_path parameter", func(ctx context.Context) {
			b := newRedis()
			expectTold(b.ask(ctx, b.body(object{"credhub_secret_path": "/foo"})),
				`"credhub_secret_path" must be the path of a credential that the operator allows`)
			b.with(object{"allowed_references": []string{"/foo"}})
			Expect(redisJob(ctx, b, object{"credhub_secret_path": "/foo"})).To(HaveKeyWithValue("secret", "((/foo))"))
		}),
		same("has the properties that BOSH's variables fill", func(ctx context.Context) {
			generated := newRedis().generate(ctx, nil)
			Expect(generated.job()["redis"]).To(And(
				HaveKeyWithValue("generated_secret", "((secret_pass))"),
				HaveKeyWithValue("ca_cert", "((instance_certificate.ca))"),
				HaveKeyWithValue("certificate", "((instance_certificate.certificate))"),
				HaveKeyWithValue("private_key", "((instance_certificate.private_key))"), Not(HaveKey("secret")),
			))
			Expect(generated.tree["variables"]).To(Equal(decode(fixture("redis-adapter.yml"))["variables"]))
		}),
		same("uses the secret from the old manifest", func(ctx context.Context) {
			b := migrated()
			Expect(redisJob(ctx, b, nil)).To(HaveKeyWithValue("secret", "((/some/special/path))"))
		}),
		same("existing credhub name in previous manifest", func(ctx context.Context) {
			b := migrated()
			b.Manifest = strings.Replace(b.Manifest, "odb_managed_secret))", "yeee))", 1)
			Expect(redisJob(ctx, b, nil)["odb_managed_secret"]).To(HaveSuffix("/yeee))"))
		}),
		differs("ignores the previous odb_managed_secret when the flag says so", func(ctx context.Context) {
			b := newRedis()
			b.deploy(ctx, nil)
			again := b.deploy(ctx, object{"odb_managed_secret": "other"})
			Expect(again.job()["redis"]).To(HaveKeyWithValue("odb_managed_secret",
				"((odb_secret:odb_managed_secret-2))"))
			Expect(again.Secrets).To(Equal(object{"odb_managed_secret-2": "other"}))
		}),
		same("plan_secret unchanged", func(ctx context.Context) {
			b := newRedis()
			b.properties()["plan_secret"] = "plansecret"
			b.deploy(ctx, nil)
			again := b.generate(ctx, nil)
			Expect(again.job()["redis"].(object)["plan_secret"]).To(HaveSuffix("/plan_secret))"))
			Expect(again.Secrets).To(BeEmpty())
		}),
		same("plan_secret changed", func(ctx context.Context) {
			b := newRedis()
			b.properties()["plan_secret"] = "before"
			b.deploy(ctx, nil)
			b.properties()["plan_secret"] = "plansecret"
			again := b.generate(ctx, nil)
			Expect(again.job()["redis"]).To(HaveKeyWithValue("plan_secret", "((odb_secret:plan_secret-2))"))
			Expect(again.Secrets).To(HaveKeyWithValue("plan_secret-2", "plansecret"))
		}),
		same("does not reuse the odb secret name of a plan_secret", func(ctx context.Context) {
			b := newRedis()
			names := map[any]bool{}
			for _, secret := range []string{"a", "b", "a", "c"} {
				b.properties()["plan_secret"] = secret
				names[b.deploy(ctx, nil).job()["redis"].(object)["plan_secret"]] = true
			}
			Expect(names).To(HaveLen(4))
		}),
		same("no plan_secret property", func(ctx context.Context) {
			generated := newRedis().generate(ctx, nil)
			Expect(generated.job()["redis"]).NotTo(HaveKey("plan_secret"))
			Expect(generated.Secrets).NotTo(HaveKey("plan_secret"))
		}),
		differs("plan_secret with secure manifests off", func(ctx context.Context) {
			b := newRedis()
			b.with(object{"secure_manifests": false})
			b.properties()["plan_secret"] = "plansecret"
			generated := b.generate(ctx, nil)
			Expect(generated.job()["redis"]).To(HaveKeyWithValue("plan_secret", "plansecret"))
			Expect(generated.Secrets).To(BeEmpty())
		}),
		differs("rotates the plan_secret on an upgrade, which has no previous secrets", func(ctx context.Context) {
			b := newRedis()
			b.properties()["plan_secret"] = "plansecret"
			b.deploy(ctx, nil)
			b.noSecrets = true
			Expect(b.generate(ctx, nil).Secrets).To(BeEmpty())
		}),
		differs("makes the expected manifest from a valid old manifest", func(ctx context.Context) {
			b := migrated()
			b.expectNoPendingChanges(ctx)
			generated := b.deploy(ctx, nil)
			Expect(b.Secrets).To(ContainElement("c29tZS1wYXNzd29yZC1vZi0yMC1ieXRlcw=="))
			Expect(generated.job()["redis"]).To(And(
				HaveKeyWithValue("maxclients", 47), HaveKeyWithValue("persistence", "yes"),
				HaveKeyWithValue("secret", "((/some/special/path))"),
			))
			b.expectNoPendingChanges(ctx)
		}),
		same("maxclients parameter clashes with that of the old manifest", func(ctx context.Context) {
			b := migrated()
			Expect(redisJob(ctx, b, object{"maxclients": 56.0})).To(HaveKeyWithValue("maxclients", 56))
		}),
		same("moves instance-group-level properties to job level", func(ctx context.Context) {
			b := newRedis()
			b.Manifest = fixture("redis-adapter-old.yml")
			generated := b.deploy(ctx, nil)
			Expect(generated.group(0)).NotTo(HaveKey("properties"))
			Expect(generated.job()["redis"]).To(And(HaveKeyWithValue("maxclients", 22),
				HaveKeyWithValue("persistence", "yes")))
			Expect(b.Secrets[b.secretOf("password")]).To(Equal("some-password"))
		}),
	}
}

// secretOf returns the reference that is the value of a property of the deployed server.
func (b *broker) secretOf(property string) string {
	p := product{tree: decode(b.Manifest)}
	return p.job()["redis"].(object)[property].(string)
}
