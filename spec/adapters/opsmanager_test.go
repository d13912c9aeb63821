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

// environments contains functions that return the operator's settings for pools, and for adapters that send requests to
// an external service, which paks do not.
var environments = map[string]func(p *player) []string{"mongodb": func(p *player) []string {
	return opsManager(p.recorded)
}, "ondemand": pools}

// paks contains the directories of the paks that are not in testdata/paks, by adapter.
var paks = map[string]string{"mongodb": "../../examples/mongodb"}

// opsManager returns the operator's settings for Ops Manager: its versions, and the project that the operator created
// for the recorded adapter, if there is one.
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
		if item == nil || !c.createdProject() {
			return "{}"
		}
		return shown(object{"default": item, cmp.Or(named, "default"): item})
	}
	project, ok := at(c.Stdout, "/properties/mongo_ops").(object)
	if !ok {
		project = object{"group_id": "5be0c1a2f3d4e5f601234567", "api_key": "agent-key-1"}
	}
	projects, keys := each(project["group_id"]), each(project["api_key"])
	if c.projects != nil {
		projects, keys = shown(c.projects), shown(c.projects)
	}
	return []string{
		"MONGODB_VERSIONS=" + strings.Join(all, ","), "MONGODB_PROJECTS=" + projects, "MONGODB_AGENT_KEYS=" + keys,
		"MONGODB_AUTOMATION_PASSWORDS=" + each(at(c.Input, "/ops_manager/automation_password")),
	}
}

// createdProject reports whether Ops Manager rejected no request. The project may have been unknown to it.
func (c recorded) createdProject() bool {
	return !slices.ContainsFunc(c.Asked, func(request any) bool {
		status, _ := at(request, "/status").(int64)
		return status >= http.StatusBadRequest && status != http.StatusNotFound
	})
}

// maskedCommands returns the recorded commands for MongoDB, with one text in place of all passwords.
func maskedCommands(recorded any) []any {
	all := []any{}
	list, _ := recorded.([]any)
	for _, item := range list {
		all = append(all, withoutPassword(at(item, "/command")))
	}
	return all
}

// withoutPassword replaces the passwords in a command for MongoDB with the same text.
func withoutPassword(command any) any {
	fields, _ := command.(object)
	if fields["pwd"] != nil {
		fields["pwd"] = "random"
	}
	return command
}

// serve configures the stub of MongoDB with the administrator of the case and with users.
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

// receivedHere returns the commands that the stub of MongoDB received from this adapter. It asserts that all contain
// one password of the required form.
func (p *player) receivedHere() []any {
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
