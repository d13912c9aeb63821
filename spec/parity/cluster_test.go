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
	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"

	"service-adapter/spec/kit"
	binary "service-adapter/spec/kit/broker"
	"service-adapter/spec/kit/servers"
)

// newCluster returns a broker with the example redis-cluster, whose plan has one instance group for all nodes.
func newCluster() *broker {
	GinkgoHelper()
	b := newBroker("redis-cluster")
	b.ServiceID, b.PlanID = "2f6c8a14-7b3d-4e95-a0c1-5d9e8b7f6a01", "2f6c8a14-7b3d-4e95-a0c1-5d9e8b7f6a11"
	b.Deployment = serviceadapter.ServiceDeployment{
		DeploymentName: b.DeploymentName(),
		Releases: serviceadapter.ServiceReleases{
			release("redis-forge", "2", "cluster-7"),
			release("errands", "1", "form-cluster"),
		},
		Stemcells: []serviceadapter.Stemcell{{OS: "ubuntu-noble", Version: "1.1"}},
	}
	node := planGroup("node", 1)
	node["persistent_disk_type"] = "10GB"
	b.Plan = object{
		"properties": object{"max_nodes": 18}, "instance_groups": []any{node},
		"lifecycle_errands": object{"post_deploy": []any{object{"name": "form-cluster"}}},
	}
	return b
}

// redisNodes are real Redis servers with TLS that can form a cluster.
type redisNodes struct {
	addresses    []string
	password, ca string
}

// startNodes starts this number of Redis servers with TLS and the password. They run until the spec ends.
func startNodes(count int, password string) *redisNodes {
	GinkgoHelper()
	path := kit.Program(GinkgoT(), "redis-server", "scripts/install redis-server")
	certificates := servers.NewCertificates(GinkgoT(), "redis.internal")
	n := &redisNodes{password: password}
	for i := range count {
		dir, err := os.MkdirTemp("", "node-")
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(os.RemoveAll, dir)
		for name, text := range map[string]string{
			"ca": certificates.CA, "certificate": certificates.Certificate,
			"key": certificates.Key,
		} {
			Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
		}
		n.ca = filepath.Join(dir, "ca")
		address := fmt.Sprintf("127.%d.%d.%d", os.Getpid()%250+1, GinkgoParallelProcess(), 20+i)
		n.addresses = append(n.addresses, address)
		server := exec.Command(path, "-")
		server.Stdin = strings.NewReader(fmt.Sprintf("bind %[1]s\nbind-source-addr %[1]s\ncluster-announce-ip %[1]s\n"+
			"port 0\ntls-port 6379\ntls-cluster yes\ntls-replication yes\ntls-auth-clients no\n"+
			"tls-ca-cert-file %[2]s/ca\ntls-cert-file %[2]s/certificate\ntls-key-file %[2]s/key\n"+
			"cluster-enabled yes\ncluster-node-timeout 5000\n"+
			"requirepass %[3]s\nmasterauth %[3]s\nsave \"\"\ndir %[2]s\n", address, dir, password))
		server.Stdout = GinkgoWriter
		Expect(server.Start()).To(Succeed())
		DeferCleanup(func() {
			_ = server.Process.Kill() // it may have ended
			_ = server.Wait()
		})
	}
	for _, address := range n.addresses {
		Eventually(func() string { return n.cli(address, "PING") }).WithTimeout(startUp).Should(Equal("PONG"))
	}
	return n
}

// cli runs a command on a node, following redirections to other nodes, and returns the output.
func (n *redisNodes) cli(address string, command ...string) string {
	cli := exec.Command("redis-cli",
		append([]string{"-c", "-h", address, "--tls", "--cacert", n.ca, "--no-auth-warning"}, command...)...)
	cli.Env = []string{"REDISCLI_AUTH=" + n.password}
	output, _ := cli.CombinedOutput() // the output contains the error
	return strings.TrimSpace(string(output))
}

// form runs the errand with these nodes, and returns its output and error.
func (n *redisNodes) form(ctx context.Context, replicas int, nodes ...string) (string, error) {
	errand := exec.CommandContext(ctx, kit.Path("examples", "redis-cluster", "errand", "form-cluster"))
	errand.Env = append(os.Environ(), "REDISCLI_AUTH="+n.password, "CA="+n.ca, fmt.Sprintf("REPLICAS=%d", replicas),
		"NODES="+strings.Join(nodes, ":6379 ")+":6379")
	output, err := errand.CombinedOutput()
	GinkgoWriter.Println(string(output))
	return string(output), err
}

var _ = Describe("The example redis-cluster", func() {
	It("has test cases that pass", kit.Slow(), func(ctx context.Context) {
		b := newCluster()
		got, err := binary.Adapter{
			Path: adapterBinary, Dir: b.dir,
			Env: []string{"TMPDIR=" + b.dir, "HOME=" + b.dir},
		}.Run(ctx, "", "pak", "test", filepath.Join(b.dir, "pak"))
		Expect(err).NotTo(HaveOccurred())
		Expect(got.Exit).To(Equal(0), got.Stdout+got.Stderr)
		Expect(got.Stderr).To(HaveSuffix("5 passed, 0 failed\n"))
	})

	It("is formed once by its errand, and apps write and move to other bindings", kit.Slow(),
		func(ctx context.Context) {
			b := newCluster()
			generated := b.deploy(ctx, object{"masters": 3, "replicas": 1})
			Expect(generated.group(0)).To(HaveKeyWithValue("instances", 6))
			Expect(generated.groups()).To(Equal([]string{"node: cluster-7", "form-cluster: form-cluster"}))
			b.expectNoPendingChanges(ctx)
			nodes := startNodes(6, b.Secrets["((/odb/"+b.ServiceID+"/"+b.DeploymentName()+"/password))"])
			b.VMs = map[string][]string{"node": nodes.addresses}

			By("an errand while a node is missing")
			said, err := nodes.form(ctx, 1, append(nodes.addresses, "127.0.0.9")...)
			Expect(err).To(HaveOccurred())
			Expect(said).To(HavePrefix("the node 127.0.0.9:6379 does not answer: Could not connect"))
			By("an errand after another one was killed when it had connected some nodes")
			first := strings.Fields(nodes.cli(nodes.addresses[1], "CLUSTER", "MEET", nodes.addresses[0], "6379"))
			Expect(first).To(Equal([]string{"OK"}))
			Expect(nodes.cli(nodes.addresses[0], "CLUSTER", "ADDSLOTS", "1", "2")).To(Equal("OK"))
			By("the errand after the deployment, and after the next deployment")
			said, err = nodes.form(ctx, 1, nodes.addresses...)
			Expect(err).NotTo(HaveOccurred())
			Expect(said).To(Equal("created a cluster of 6 nodes\n"))
			before := nodes.cli(nodes.addresses[0], "CLUSTER", "MYID")
			said, err = nodes.form(ctx, 1, nodes.addresses...)
			Expect(err).NotTo(HaveOccurred())
			Expect(said).To(Equal("the cluster has 6 nodes\n"))
			Expect(nodes.cli(nodes.addresses[0], "CLUSTER", "MYID")).To(Equal(before))
			Expect(nodes.cli(nodes.addresses[0], "CLUSTER", "INFO")).To(ContainSubstring("cluster_size:3"),
				"of six nodes three are masters")

			By("an app that gets a new binding")
			old, current := credentials(b.bind(ctx, "old", nil)), credentials(b.bind(ctx, "new", nil))
			Expect(current["uris"]).To(And(HaveLen(6),
				ContainElement(fmt.Sprintf("rediss://:%s@%s:6379", nodes.password, nodes.addresses[0]))))
			Expect(nodes.cli(nodes.addresses[0], "SET", "a", "1")).To(Equal("OK"))
			Expect(b.unbind(ctx, "old").Exit).To(Equal(0))
			Expect(old["password"]).To(Equal(nodes.password))
			Expect(nodes.cli(nodes.addresses[5], "GET", "a")).To(Equal("1"),
				"each node sends clients to the one that has the key")
		})
})
