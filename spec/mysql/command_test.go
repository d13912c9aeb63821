package mysql_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/spec/kit"
)

// literal matches the parts in which two statements of the same form differ: texts, names in backquotes, and numbers.
var literal = regexp.MustCompile("'[^']*'|`[^`]*`|[0-9]+")

// command runs the command of the pak directly, with the inputs of a binding and some changed inputs, and returns its
// output.
func (s site) command(ctx context.Context, change map[string]string, action string) (string, error) {
	GinkgoHelper()
	inputs := map[string]string{
		"hosts": server.Host + "\n", "port": strconv.Itoa(server.Port), "admin_user": server.User,
		"admin_password": server.Password, "ca_cert": certificates.CA, "username": userOne, "password": "secret",
		"database": "app", "read_only": "false",
	}
	maps.Copy(inputs, change)
	dir := filepath.Join(s.Dir, "inputs")
	Expect(os.MkdirAll(dir, 0o700)).To(Succeed())
	for name, text := range inputs {
		Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	command := exec.CommandContext(ctx, kit.Path("examples", "mysql", "commands", "mysql-binding"), action)
	command.Dir, command.Env = s.Dir, []string{"PATH=" + os.Getenv("PATH"), "BIND_INPUTS=" + dir}
	output, err := command.CombinedOutput()
	return string(output), err
}

// forms returns the sorted forms of statements, each of them once.
func forms(statements []string) []string {
	all := make([]string, 0, len(statements))
	for _, statement := range statements {
		all = append(all, literal.ReplaceAllString(statement, "…"))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// documented returns the statements that the README of the example lists.
func documented() []string {
	GinkgoHelper()
	text, err := os.ReadFile(kit.Path("examples", "mysql", "README.md"))
	Expect(err).NotTo(HaveOccurred())
	_, list, found := strings.Cut(string(text), "```sql\n")
	Expect(found).To(BeTrue())
	list, _, found = strings.Cut(list, "\n```")
	Expect(found).To(BeTrue())
	return strings.Split(list, "\n")
}

// executed returns the statements of all sessions of the administrator since an offset in the server's log.
func executed(offset int64) []string {
	GinkgoHelper()
	file, err := os.Open(server.Statements)
	Expect(err).NotTo(HaveOccurred())
	defer file.Close()
	_, err = file.Seek(offset, 0)
	Expect(err).NotTo(HaveOccurred())
	// A line has the time, unless the line before has the same, the id of the session, the kind and the text.
	entry := regexp.MustCompile(`^(?:[^\t]*\t)?[\t ]*([0-9]+) (Connect|Query|Quit|Init DB)\t(.*)$`)
	administrators := map[string]bool{}
	var statements []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		fields := entry.FindStringSubmatch(lines.Text())
		switch {
		case fields == nil:
		case fields[2] == "Connect" && strings.HasPrefix(fields[3], server.User+"@"):
			administrators[fields[1]] = true
		case fields[2] == "Query" && administrators[fields[1]]:
			statements = append(statements, fields[3])
		}
	}
	return statements
}

var _ = Describe("the command mysql-binding", func() {
	It("executes the statements that the README lists, and no others", func(ctx context.Context) {
		info, err := os.Stat(server.Statements)
		Expect(err).NotTo(HaveOccurred())
		s := newSite(ctx)
		session(ctx, s.Credentials(ctx, one, nil))
		s.Credentials(ctx, two, object{"read_only": true})
		s.unbound(ctx, one)
		s.unbound(ctx, two)
		Expect(forms(executed(info.Size()))).To(Equal(forms(documented())))
	})

	It("changes an existing user of an earlier run according to the inputs", func(ctx context.Context) {
		s := prepared(single, server.Host)
		inputs := map[string]string{}
		output, err := s.command(ctx, inputs, "create")
		Expect(err).NotTo(HaveOccurred(), output)
		query(ctx, "ALTER USER '"+userOne+"'@'%' ACCOUNT LOCK")
		inputs["read_only"], inputs["password"] = "true", "another"
		output, err = s.command(ctx, inputs, "create")
		Expect(err).NotTo(HaveOccurred(), output)
		uri := fmt.Sprintf("mysql://%s:another@%s:%d/app", userOne, serverName, server.Port)
		app := session(ctx, object{"uri": uri, "ca_cert": certificates.CA})
		_, err = app.ExecContext(ctx, "CREATE TABLE orders (id INT)")
		refused(err, commandDenied)
		for range 2 {
			output, err = s.command(ctx, inputs, "delete")
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(users(ctx)).To(BeEmpty())
		}
	})

	DescribeTable("fails before it connects",
		func(ctx context.Context, change map[string]string, action, message string) {
			output, err := prepared(single, server.Host).command(ctx, change, action)
			Expect(err).To(HaveOccurred())
			Expect(output).To(Equal(message + "\n"))
			Expect(users(ctx)).To(BeEmpty())
		},
		Entry("without an action", nil, "", "usage: mysql-binding create|delete"),
		Entry("without a user", map[string]string{"username": ""}, "delete", "mysql-binding: invalid input username"),
		Entry("with a user that is not a word", map[string]string{"username": "a'@'%"}, "delete",
			"mysql-binding: invalid input username"),
		Entry("with a password that is not a word", map[string]string{"password": `\`}, "create",
			"mysql-binding: invalid input password"),
		Entry("with a database that is not a word", map[string]string{"database": "a`.*"}, "create",
			"mysql-binding: invalid input database"),
		Entry("with a port that contains a line break", map[string]string{"port": "1\nuser=root"}, "delete",
			"mysql-binding: invalid input port"),
		Entry("without servers", map[string]string{"hosts": ""}, "delete", "cannot reach MySQL at any address"),
	)

	It("fails without inputs", func(ctx context.Context) {
		command := exec.CommandContext(ctx, kit.Path("examples", "mysql", "commands", "mysql-binding"), "delete")
		command.Dir, command.Env = GinkgoT().TempDir(), []string{"PATH=" + os.Getenv("PATH")}
		output, err := command.CombinedOutput()
		Expect(err).To(HaveOccurred())
		Expect(string(output)).To(Equal("mysql-binding: BIND_INPUTS is not a directory\n"))
	})
})
