package adapters_test

import (
	"cmp"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"service-adapter/internal/value"
)

// environments are the operator's settings for adapters that ask a service outside, which paks do not, and for pools.
var environments = map[string]func(p *player) []string{"mongodb": func(p *player) []string {
	return opsManager(p.recorded)
}, "ondemand": pools}

// paks are the directories of the paks that are not in testdata/paks.
var paks = map[string]string{"mongodb": "../../examples/mongodb"}

// opsManager is what an operator tells the pak of Ops Manager: the versions that it has, and the project that it made
// for the recorded adapter, if it did.
func opsManager(c recorded) []string {
	versions := []any{"3.4.10", "3.6.8", "4.0.2", "4.0.2-ent"}
	if listed, ok := at(c.Input, "/ops_manager/versions").([]any); ok {
		versions = listed
	}
	all := make([]string, len(versions))
	for i, version := range versions {
		all[i] = value.Text(version)
	}
	named := value.Text(at(c.request(), "/parameters/projectName"))
	each := func(item any) string {
		if item == nil || !c.madeProject() {
			return "{}"
		}
		return shown(object{"default": item, cmp.Or(named, "default"): item})
	}
	made, ok := at(c.Stdout, "/properties/mongo_ops").(object)
	if !ok {
		made = object{"group_id": "5be0c1a2f3d4e5f601234567", "api_key": "agent-key-1"}
	}
	projects, keys := each(made["group_id"]), each(made["api_key"])
	if c.projects != nil {
		projects, keys = shown(c.projects), shown(c.projects)
	}
	return []string{
		"MONGODB_VERSIONS=" + strings.Join(all, ","), "MONGODB_PROJECTS=" + projects, "MONGODB_AGENT_KEYS=" + keys,
		"MONGODB_AUTOMATION_PASSWORDS=" + each(at(c.Input, "/ops_manager/automation_password")),
	}
}

// madeProject tells that Ops Manager refused nothing; it need not have known the project.
func (c recorded) madeProject() bool {
	return !slices.ContainsFunc(c.Asked, func(request any) bool {
		status, _ := at(request, "/status").(int64)
		return status >= http.StatusBadRequest && status != http.StatusNotFound
	})
}

// told are the recorded commands for MongoDB, with the same text for all passwords.
func told(recorded any) []any {
	all := []any{}
	list, _ := recorded.([]any)
	for _, item := range list {
		all = append(all, withoutPassword(at(item, "/command")))
	}
	return all
}

func withoutPassword(command any) any {
	fields, _ := command.(object)
	if fields["pwd"] != nil {
		fields["pwd"] = "random"
	}
	return command
}

// serve lets the stub of MongoDB have the case's administrator and the given users.
func (p *player) serve(users any) {
	GinkgoHelper()
	if p.Input["server_admin_password"] == nil {
		return
	}
	var lines string
	list, _ := users.([]any)
	for _, user := range list {
		lines += value.Text(user) + "\n"
	}
	for name, text := range map[string]string{
		"server-password": value.Text(p.Input["server_admin_password"]),
		"users":           lines, "told": "",
	} {
		Expect(os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o600)).To(Succeed())
	}
}

// toldHere are the commands that the stub of MongoDB got here. All have one password of the right form.
func (p *player) toldHere() []any {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(p.dir, "told"))
	if !os.IsNotExist(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	all := []any{}
	for line := range strings.Lines(string(text)) {
		command, err := value.DecodeJSON([]byte(line))
		Expect(err).NotTo(HaveOccurred())
		all = append(all, withoutPassword(command))
	}
	return all
}
