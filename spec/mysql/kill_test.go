package mysql_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/odb"
	"service-adapter/spec/kit"
	"service-adapter/spec/kit/process"
)

// gate replaces MySQL's client and passes the statements on to it. If the file "hold" exists and one of the lines
// matches its pattern, the gate stops after that line, as if the server did not answer.
const gate = `#!/bin/sh
dir=%[1]q
statements=$(cat)
hold=$(cat "$dir/hold" 2>/dev/null)
if [ "$hold" ] && printf '%%s\n' "$statements" | grep -q "$hold"; then
  printf '%%s\n' "$statements" | sed "/$hold/q" | /usr/bin/mariadb "$@"
  echo >"$dir/at"
  exec sleep 600
fi
printf '%%s\n' "$statements" | /usr/bin/mariadb "$@"
`

// gated deploys an instance whose commands find the gate instead of MySQL's client. OpenTofu works below the directory
// of the site, so that its processes can be killed.
func gated(ctx context.Context) site {
	GinkgoHelper()
	s := newSite(ctx)
	Expect(os.WriteFile(filepath.Join(s.Dir, "mysql"), fmt.Appendf(nil, gate, s.Dir), 0o700)).To(Succeed())
	s.Configure(object{"cache_dir": filepath.Join(s.Dir, "cache"), "config": object{"PATH": s.Dir}})
	return s
}

// killed runs a command of the adapter until the server has executed a statement, inspects the processes, and kills all
// of them.
func (s site) killed(statement, command string, parameters object, inspect func()) {
	GinkgoHelper()
	hold, at := filepath.Join(s.Dir, "hold"), filepath.Join(s.Dir, "at")
	Expect(os.WriteFile(hold, []byte(statement), 0o600)).To(Succeed())
	input, err := odb.Input(command, parameters)
	Expect(err).NotTo(HaveOccurred())
	running := process.Start(s.Adapter, nil, input, command)
	Eventually(at).Should(BeAnExistingFile())
	inspect()
	process.End(s.Dir)
	running.Wait()
	Expect(os.Remove(hold)).To(Succeed())
	Expect(os.Remove(at)).To(Succeed())
}

// optionFiles returns the paths of the files in which the command gives the administrator's password to the client.
func (s site) optionFiles() []string {
	GinkgoHelper()
	var paths []string
	Expect(filepath.WalkDir(s.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.Name() == "options" {
			paths = append(paths, path)
		}
		return err
	})).To(Succeed())
	return paths
}

var _ = Describe("a bind that is killed", func() {
	for _, statement := range []string{"CREATE DATABASE", "CREATE USER", "GRANT ALL"} {
		Describe("after "+statement, kit.SlowIf(statement != "GRANT ALL"), func() {
			var s site

			BeforeEach(func(ctx context.Context) {
				s = gated(ctx)
				s.killed(statement, "create-binding", s.BindParameters(one, nil), func() {
					commands := HaveField("Command", ContainSubstring("mysql-binding create"))
					Expect(process.Below(s.Dir)).To(And(ContainElement(commands),
						HaveEach(HaveField("Command", Not(ContainSubstring(server.Password))))))
					options := s.optionFiles()
					Expect(options).To(HaveLen(1))
					info, err := os.Stat(options[0])
					Expect(err).NotTo(HaveOccurred())
					Expect(info.Mode()).To(Equal(fs.FileMode(0o600)))
				})
				Expect(databases(ctx)).To(ConsistOf("app"))
				if statement != "CREATE DATABASE" {
					Expect(users(ctx)).To(ConsistOf(userOne))
				}
			})

			It("is undone by delete-binding", func(ctx context.Context) {
				s.unbound(ctx, one)
				Expect(users(ctx)).To(BeEmpty())
				Expect(s.optionFiles()).To(BeEmpty())
			})

			It("is completed by the next create-binding", func(ctx context.Context) {
				run(ctx, session(ctx, s.Credentials(ctx, one, nil)), "CREATE TABLE orders (id INT)")
				Expect(s.optionFiles()).To(BeEmpty())
				s.unbound(ctx, one)
				Expect(users(ctx)).To(BeEmpty())
			})

			It("grants nothing more to a later create-binding with read access only", kit.Slow(),
				func(ctx context.Context) {
					reader := session(ctx, s.Credentials(ctx, one, object{"read_only": true}))
					_, err := reader.ExecContext(ctx, "CREATE TABLE orders (id INT)")
					refused(err, commandDenied)
					s.unbound(ctx, one)
				})
		})
	}
})

var _ = DescribeTable("an unbind that is killed is finished by the next unbind",
	func(ctx context.Context, statement string, number uint16) {
		s := gated(ctx)
		credentials := s.Credentials(ctx, one, nil)
		session(ctx, credentials)
		s.killed(statement, "delete-binding", s.UnbindParameters(one), func() {})
		refused(open(credentials).PingContext(ctx), number)
		s.unbound(ctx, one)
		Expect(sessions(ctx)).To(BeEmpty())
		Expect(users(ctx)).To(BeEmpty())
		Expect(s.optionFiles()).To(BeEmpty())
	},
	Entry("after the user was locked", "ACCOUNT LOCK", uint16(accountLocked)),
	Entry("after the sessions were ended", kit.Slow(), "^KILL", uint16(accountLocked)),
	Entry("after the user was dropped", kit.Slow(), "DROP USER", uint16(accessDenied)),
)
