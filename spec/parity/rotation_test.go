package parity_test

import (
	"context"
	"os/exec"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
)

// The specs do what cf bind-service --strategy multiple does: they create a new binding of the same app and then delete
// the old one.
var _ = Describe("An app moves from one binding to another", func() {
	It("of Redis, with a client that receives no error and finds all keys", func(ctx context.Context) {
		b := newRedis()
		b.properties()["acl_users"] = true
		b.deploy(ctx, nil)
		server := startRedis(b.Secrets[b.secretOf("password")])
		b.VMs = map[string][]string{"redis-server": {server.Host}}
		old := credentials(b.bind(ctx, "old", nil))
		Expect(server.as(old["username"].(string), old["password"].(string), "SET", "counter", "1")).To(Equal("OK"))
		current := credentials(b.bind(ctx, "new", nil))

		By("holding one connection while the old binding is deleted")
		client := exec.Command("redis-cli", "-h", server.Host, "--no-auth-warning", "--user",
			current["username"].(string), "-r", "-1", "-i", "0.01", "INCR", "counter")
		client.Env = []string{"REDISCLI_AUTH=" + current["password"].(string)}
		output := gbytes.NewBuffer()
		client.Stdout, client.Stderr = output, output
		Expect(client.Start()).To(Succeed())
		DeferCleanup(func() {
			_ = client.Process.Kill() // it may have ended
			_ = client.Wait()
		})
		Eventually(output).Should(gbytes.Say("2"))
		Expect(b.unbind(ctx, "old").Exit).To(Equal(0))
		before := server.as("", b.Secrets[b.secretOf("password")], "GET", "counter")
		Eventually(func() string {
			return server.as("", b.Secrets[b.secretOf("password")], "GET", "counter")
		}).ShouldNot(Equal(before))
		Expect(string(output.Contents())).To(MatchRegexp(`^[0-9\s]+$`), "the client receives only numbers")
		Expect(server.as(old["username"].(string), old["password"].(string), "GET",
			"counter")).To(ContainSubstring("WRONGPASS"))
		Expect(server.as(current["username"].(string), current["password"].(string), "DEL", "counter")).To(Equal("1"))
	})

	It("of Redis without users of bindings, whose unbind does not change the server", func(ctx context.Context) {
		b := newRedis()
		b.deploy(ctx, nil)
		server := startRedis(b.Secrets[b.secretOf("password")])
		b.VMs = map[string][]string{"redis-server": {server.Host}}
		old, current := credentials(b.bind(ctx, "old", nil)), credentials(b.bind(ctx, "new", nil))
		Expect(current).To(Equal(old))
		Expect(b.unbind(ctx, "old").Exit).To(Equal(0))
		Expect(server.as("", current["password"].(string), "SET", "key", "value")).To(Equal("OK"))
	})

	It("of Kafka, where only the topic of the old binding is deleted", func(ctx context.Context) {
		b := boundKafka(ctx)
		credentials(b.bind(ctx, "old", object{"parameters": object{"topic": "orders"}}))
		credentials(b.bind(ctx, "new", nil))
		before := len(b.calls())
		Expect(b.unbind(ctx, "old").Exit).To(Equal(0))
		Expect(b.calls()[before:]).To(Equal([]string{"topic_deleter|" + zookeepers + "|old"}),
			"the app's own topic stays")
	})
})
