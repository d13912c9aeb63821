package parity_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit/servers"
)

// A redisServer is a real server of Debian's package with an ACL file. It has its own address, because the pak supports
// only one port.
type redisServer struct{ *servers.Server }

// startRedis starts a server and sets the password of its default user.
func startRedis(password string) *redisServer {
	GinkgoHelper()
	address := fmt.Sprintf("127.%d.%d.7", os.Getpid()%250+1, GinkgoParallelProcess())
	return &redisServer{servers.Run(GinkgoT(), func(ctx context.Context, dir string) (*servers.Server, error) {
		return servers.Redis(ctx, dir, address, password)
	})}
}

// as runs a command as a user and returns the server's answer.
func (s *redisServer) as(user, password string, command ...string) string {
	return s.AskRedis(context.Background(), user, password, command...)
}

var _ = Describe("Users of bindings", func() {
	var b *broker
	var server *redisServer

	BeforeEach(func(ctx context.Context) {
		b = newRedis()
		b.properties()["acl_users"] = true
		generated := b.deploy(ctx, nil)
		Expect(generated.job()["redis"]).To(HaveKey("aclfile"))
		server = startRedis(b.Secrets[b.secretOf("password")])
		b.VMs = map[string][]string{"redis-server": {server.Host}}
	})
	admin := func() string { return b.Secrets[b.secretOf("password")] }
	users := func() int { return len(strings.Fields(server.as("", admin(), "ACL", "USERS"))) }

	It("log in with their own credentials until they are unbound", func(ctx context.Context) {
		one, two := credentials(b.bind(ctx, "one", nil)), credentials(b.bind(ctx, "two", nil))
		Expect(one["username"]).NotTo(Equal(two["username"]))
		Expect(one["password"]).NotTo(Or(Equal(two["password"]), Equal(admin())))
		Expect(one["uri"]).To(HavePrefix("redis://" + one["username"].(string) + ":"))
		user, password := one["username"].(string), one["password"].(string)
		Expect(server.as(user, password, "SET", "key", "value")).To(Equal("OK"))
		Expect(server.as(two["username"].(string), two["password"].(string), "GET", "key")).To(Equal("value"))
		Expect(server.as(user, password, "ACL", "LIST")).To(HavePrefix("NOPERM"))
		Expect(server.as(user, password, "CONFIG", "GET", "requirepass")).To(HavePrefix("NOPERM"))
		saved, err := os.ReadFile(filepath.Join(server.Dir, "users.acl"))
		Expect(err).NotTo(HaveOccurred())
		Expect(string(saved)).To(ContainSubstring(user))

		Expect(b.bind(ctx, "one", nil).Exit).To(Equal(49))
		Expect(b.unbind(ctx, "one").Exit).To(Equal(0))
		Expect(server.as(user, password, "GET", "key")).To(ContainSubstring("WRONGPASS"))
		Expect(server.as(two["username"].(string), two["password"].(string), "GET", "key")).To(Equal("value"))
		Expect(b.unbind(ctx, "two").Exit).To(Equal(0))
		Expect(users()).To(Equal(1))
	})

	It("are deleted with the changed password of the administrator", func(ctx context.Context) {
		credentials(b.bind(ctx, "one", nil))
		reference := b.secretOf("password")
		Expect(server.as("", admin(), "ACL", "SETUSER", "default", "resetpass", ">rotated")).To(Equal("OK"))
		b.Secrets[reference] = "rotated"
		got := b.unbind(ctx, "one")
		Expect(got.Exit).To(Equal(0), got.Stderr)
		Expect(users()).To(Equal(1))
	})

	It("are rejected with a message for the operator if the administrator's password is wrong, and leave nothing",
		func(ctx context.Context) {
			right := admin()
			b.Secrets[b.secretOf("password")] = "not-the-password"
			got := b.bind(ctx, "one", nil)
			expectRefused(got, "WRONGPASS")
			Expect(got.Stderr).NotTo(ContainSubstring("not-the-password"))
			b.Secrets[b.secretOf("password")] = right
			Expect(b.unbind(ctx, "one").Exit).To(BeElementOf(0, 41))
			Expect(users()).To(Equal(1))
			Expect(b.unbind(ctx, "one").Exit).To(Equal(41))
		})

	It("are not created on a server that is down", func(ctx context.Context) {
		Expect(server.Stop()).To(Succeed())
		expectRefused(b.bind(ctx, "one", nil), "Could not connect to Redis")
	})

	It("are deleted even if they no longer exist on the server", func(ctx context.Context) {
		user := credentials(b.bind(ctx, "one", nil))["username"].(string)
		Expect(server.as("", admin(), "ACL", "DELUSER", user)).To(Equal("1"))
		Expect(b.unbind(ctx, "one").Exit).To(Equal(0))
	})
})
