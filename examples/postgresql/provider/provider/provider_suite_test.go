package provider_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/terraform-provider-pgaccess/spec/server"
)

func TestProvider(t *testing.T) {
	RegisterFailHandler(Fail)
	suite, reporter := GinkgoConfiguration()
	suite.Timeout = 5 * time.Minute // a run that hangs must not block the suite
	RunSpecs(t, "provider", suite, reporter)
}

// All specs share OpenTofu, the path of its configuration, which names the built provider, and the server.
var (
	tofuBinary string
	cliConfig  string
	running    *server.Server
)

var _ = BeforeSuite(func(ctx context.Context) {
	tofuBinary = filepath.Join("..", "..", "..", "..", "build", "tofu", "1.12.6", "tofu") // built by `make tools`
	if _, err := os.Stat(tofuBinary); err != nil {
		if tofuBinary, err = exec.LookPath("tofu"); err != nil {
			const missing = "there is no OpenTofu; run `make tools`"
			if os.Getenv("CI") == "true" {
				Fail("with CI=true nothing is skipped: " + missing)
			}
			Skip(missing)
		}
	}
	var err error
	tofuBinary, err = filepath.Abs(tofuBinary)
	Expect(err).NotTo(HaveOccurred())
	dir, err := os.MkdirTemp("", "pgaccess-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(os.RemoveAll, dir)
	Expect(os.Chmod(dir, 0o755)).To(Succeed(), "the server may run as another user")
	build := exec.CommandContext(ctx, "go", "build", "-o", dir, "./cmd/...")
	build.Dir = ".."
	output, err := build.CombinedOutput()
	Expect(err).NotTo(HaveOccurred(), "%s", output)
	cliConfig = filepath.Join(dir, "tofu.rc")
	Expect(os.WriteFile(cliConfig, fmt.Appendf(nil, `provider_installation {
  dev_overrides { "registry.terraform.io/service-adapter/pgaccess" = %q }
}`, dir), 0o600)).To(Succeed())
	data := filepath.Join(dir, "server")
	Expect(os.Mkdir(data, 0o700)).To(Succeed())
	running, err = server.Start(ctx, data)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() error { return running.Stop() })
	Eventually(func() error { _, err := ask[int](ctx, "postgres", "SELECT 1"); return err }, "30s").Should(Succeed())
})

// A module is a directory with a configuration and its state.
type module struct{ dir, host, port string }

func newModule() *module {
	return &module{dir: GinkgoT().TempDir(), host: "localhost", port: fmt.Sprint(running.Port)}
}

// write writes the configuration, which consists of the provider block and the resources.
func (m *module) write(resources string) {
	GinkgoHelper()
	Expect(os.WriteFile(filepath.Join(m.dir, "main.tf"), fmt.Appendf(nil, `
terraform {
  required_providers {
    pgaccess = { source = "registry.terraform.io/service-adapter/pgaccess" }
  }
}
provider "pgaccess" {
  hosts = [%q]
  port = %s
  user = %q
  password = %q
  ca_certificate = %q
}
%s`, m.host, m.port, server.Admin, server.Password, running.CA, resources), 0o600)).To(Succeed())
}

// tofu runs a command of OpenTofu and returns the summaries of its errors.
func (m *module) tofu(ctx context.Context, arguments ...string) []string {
	GinkgoHelper()
	stdout := m.run(ctx, arguments...)
	errors := []string{}
	for line := range strings.Lines(stdout) {
		var message struct {
			Diagnostic struct{ Severity, Summary, Detail string }
		}
		if json.Unmarshal([]byte(line), &message) == nil && message.Diagnostic.Severity == "error" {
			errors = append(errors, strings.TrimSpace(message.Diagnostic.Summary+" "+message.Diagnostic.Detail))
		}
	}
	return errors
}

func (m *module) run(ctx context.Context, arguments ...string) string {
	GinkgoHelper()
	var stdout bytes.Buffer
	command := exec.CommandContext(ctx, tofuBinary, arguments...)
	command.Dir, command.Stdout, command.Stderr = m.dir, &stdout, GinkgoWriter
	command.Env = []string{
		"TF_CLI_CONFIG_FILE=" + cliConfig, "HOME=" + m.dir, "PATH=" + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1",
	}
	_ = command.Run() // the output contains the errors
	GinkgoWriter.Println(arguments, stdout.String())
	return stdout.String()
}

func (m *module) apply(ctx context.Context, resources string) []string {
	GinkgoHelper()
	m.write(resources)
	return m.tofu(ctx, "apply", "-json", "-auto-approve", "-input=false")
}

func (m *module) destroy(ctx context.Context) []string {
	GinkgoHelper()
	return m.tofu(ctx, "destroy", "-json", "-auto-approve", "-input=false")
}

// attributes returns the attributes of a resource in the state.
func (m *module) attributes(address string) map[string]any {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(m.dir, "terraform.tfstate"))
	Expect(err).NotTo(HaveOccurred())
	var state struct {
		Resources []struct {
			Type, Name string
			Instances  []struct{ Attributes map[string]any }
		}
	}
	Expect(json.Unmarshal(text, &state)).To(Succeed())
	for _, resource := range state.Resources {
		if resource.Type+"."+resource.Name == address {
			return resource.Instances[0].Attributes
		}
	}
	return nil
}

// connect opens a session of a user.
func connect(ctx context.Context, user, password, database string) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(fmt.Sprintf("host=127.0.0.1 port=%d sslmode=require", running.Port))
	if err != nil {
		return nil, err
	}
	config.User, config.Password, config.Database = user, password, database
	return pgx.ConnectConfig(ctx, config)
}

// ask returns the single value of a query of the superuser.
func ask[T any](ctx context.Context, database, sql string, arguments ...any) (value T, err error) {
	conn, err := connect(ctx, server.Admin, server.Password, database)
	if err != nil {
		return value, err
	}
	defer conn.Close(ctx)
	return value, conn.QueryRow(ctx, sql, arguments...).Scan(&value)
}

// do runs a statement as the superuser.
func do(ctx context.Context, statement string) {
	GinkgoHelper()
	conn, err := connect(ctx, server.Admin, server.Password, "postgres")
	Expect(err).NotTo(HaveOccurred())
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, statement)
	Expect(err).NotTo(HaveOccurred())
}
