package main_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"

	"service-adapter/spec/kit"
)

// The files of the jobs, and the message for a state backend on the VM.
const (
	intentFile = "config/intent.json"
	configFile = "config/service-adapter.yml"
	notLocal   = "state.type must be a state backend that the errand's VM can reach, such as pg: the states of a " +
		"local backend are deleted with the VM"
)

// instanceJobs returns the jobs that run in deployments of service instances. All others are colocated with the broker.
func instanceJobs() []string { return []string{"apply-instance", "destroy-instance"} }

// ownProperties returns the required properties that only this job has.
func ownProperties(job string) properties {
	if job == "apply-instance" {
		return properties{"intent": `{"format":1}`}
	}
	return properties{"instance_id": "i1"}
}

// errand returns the required properties of a job of an instance, with others added.
func errand(job string, others properties) properties {
	values := properties{"paks": []any{"/paks/redis"}, "state": properties{"type": "pg"}}
	maps.Copy(values, ownProperties(job))
	maps.Copy(values, others)
	return values
}

// everyErrand returns all properties of a job of an instance with values that differ from the defaults. The secret
// values contain "planted".
func everyErrand(job string) properties {
	values := errand(job, properties{
		"paks": []any{"/paks/redis", "/paks/old"},
		"state": properties{
			"type": "pg", "config": properties{"conn_str": "postgres://planted"}, "direct": false,
			"encryption": properties{"key": key('n'), "old_keys": []any{key('o')}},
		},
		"config": properties{"redis.token": "planted"}, "log_level": "debug", "budget": "30s", "errand_limit": "90m",
		"audit_log": "/var/vcap/sys/log/" + job + "/audit.log",
		"unknown":   "is not rendered",
	})
	if job == "apply-instance" {
		values["secrets"] = properties{"password": "planted"}
	}
	return values
}

// eachJob returns a table entry for each job of an instance.
func eachJob() []TableEntry {
	entries := []TableEntry{}
	for _, job := range instanceJobs() {
		entries = append(entries, Entry(job, job))
	}
	return entries
}

// install installs a job on a bare VM, with a program in place of the adapter, and returns the VM.
func install(ctx context.Context, job string, values properties, program string) *vm {
	GinkgoHelper()
	site := bareVM()
	path := filepath.Join(site.vcap, "packages/odb-service-adapter/bin/service-adapter")
	writeFile(program, path)
	Expect(os.Chmod(path, 0o755)).To(Succeed())
	site.deploy(ctx, job, values)
	return site
}

// escaped contains characters that JSON allows in a text, but that YAML does not allow or some readers treat as the end
// of a line.
const escaped = "\u007f\u0085\u2028\u2029\ufeff\uffff"

var _ = Describe("The job of an errand", func() {
	DescribeTable("renders a configuration with defaults", func(ctx context.Context, job string) {
		text := render(ctx, job, errand(job, nil))[configFile]
		Expect(text).To(
			MatchYAML(
				`{paks: [/paks/redis], state: {type: pg}, log_level: info, budget: 45s, cache_dir: /var/vcap/data/` +
					job +
					`/cache}`))
		_, err := load(text)
		Expect(err).NotTo(HaveOccurred())
	}, eachJob())

	DescribeTable("renders a configuration with all properties", func(ctx context.Context, job string) {
		text := render(ctx, job, everyErrand(job))[configFile]
		wanted := everyErrand(job)
		for name := range ownProperties(job) {
			delete(wanted, name)
		}
		delete(wanted, "secrets")
		delete(wanted, "unknown")
		wanted["cache_dir"] = "/var/vcap/data/" + job + "/cache"
		var config map[string]any
		Expect(yaml.Unmarshal([]byte(text), &config)).To(Succeed())
		Expect(config).To(Equal(wanted))
		_, err := load(text)
		Expect(err).NotTo(HaveOccurred())
	}, eachJob())

	DescribeTable("renders every text of its configuration unchanged", func(ctx context.Context, job string) {
		keys := properties{}
		for _, text := range hostile() {
			if len(text.(string)) < 1000 { // YAML does not allow longer keys
				keys[text.(string)] = text
			}
		}
		settings := properties{"texts": hostile()}
		text := render(ctx, job,
			errand(job, properties{"config": keys, "state": properties{"type": "pg", "config": settings}}))[configFile]
		Expect(strings.ContainsAny(text, escaped)).To(BeFalse())
		config, err := load(text)
		Expect(err).NotTo(HaveOccurred())
		Expect(config.Config).To(Equal(keys))
		Expect(config.State.Config).To(Equal(settings))
	}, eachJob())

	DescribeTable("has secrets only in files that the group vcap cannot read",
		func(ctx context.Context, job string) {
			rendered := render(ctx, job, everyErrand(job))
			holding := map[string]bool{configFile: true, intentFile: true}
			for name, text := range rendered {
				for _, secret := range []string{"planted", key('n'), key('o')} {
					Expect(strings.Contains(text, secret) && !holding[name]).To(BeFalse(), "%s has %s", name, secret)
				}
			}
			Expect(rendered[configFile]).To(And(ContainSubstring("planted"), ContainSubstring(key('n')),
				ContainSubstring(key('o'))))
		}, eachJob())

	DescribeTable("rejects a state on the VM, which is lost with the VM, with an explanation",
		func(ctx context.Context, job string) {
			for _, kind := range []string{"local", ""} {
				values := errand(job, properties{"state": properties{"type": kind}})
				_, stderr := ruby(ctx, job, values)
				Expect(stderr).To(Equal(
					"Error filling in template 'service-adapter.yml.erb' (line 5: " + notLocal + ")\n"))
				Expect(complaints(ctx, job, values)).To(ConsistOf("/state/type"))
			}
			// The Director's validator prints the text of x-error instead of its own message.
			Expect(readFile(kit.Path("jobs", job,
				"properties_schema.json"))).To(MatchRegexp(`"x-error": \{\s*"not": "` +
				notLocal + `"`))
		}, eachJob())

	DescribeTable("cannot be rendered without its required properties", func(ctx context.Context, job string) {
		const config = "service-adapter.yml.erb"
		templates := map[string]string{
			"paks": config, "state": config, "intent": "intent.json.erb",
			"instance_id": "run.erb",
		}
		required := append(slices.Collect(maps.Keys(ownProperties(job))), "paks", "state")
		for _, name := range required {
			values := errand(job, properties{name: nil})
			property, pointer := name, "/"+name
			if name == "state" {
				values[name], property, pointer = properties{"config": properties{}}, "state.type", "/state/type"
			}
			_, stderr := ruby(ctx, job, values)
			Expect(stderr).To(MatchRegexp(`^Error filling in template '` + templates[name] +
				`' \(line \d+: Can't find property '` + property + `'\)\n$`))
			Expect(complaints(ctx, job, values)).To(ConsistOf(pointer))
		}
		Expect(complaints(ctx, job, errand(job, nil))).To(BeEmpty())
		Expect(complaints(ctx, job, everyErrand(job))).To(BeEmpty())
	}, eachJob())

	DescribeTable("has a schema that reports the path of an error:",
		func(ctx context.Context, wrong properties, pointer string, only ...string) {
			for _, job := range instanceJobs() {
				if len(only) == 0 || slices.Contains(only, job) {
					Expect(complaints(ctx, job, errand(job, wrong))).To(ConsistOf(pointer), job)
				}
			}
		},
		Entry("no paks", properties{"paks": []any{}}, "/paks"),
		Entry("a relative pak", properties{"paks": []any{"redis"}}, "/paks/0"),
		Entry("a state backend that is not a name", properties{"state": properties{"type": "PG\n"}}, "/state/type"),
		Entry("settings that are not a mapping", properties{"state": properties{"type": "pg", "config": "x"}},
			"/state/config"),
		Entry("direct as text", properties{"state": properties{"type": "pg", "direct": "false"}}, "/state/direct"),
		Entry("a key that is not a text",
			properties{"state": properties{"type": "pg", "encryption": properties{"key": 1}}}, "/state/encryption/key"),
		Entry("an empty old key",
			properties{"state": properties{"type": "pg", "encryption": properties{"old_keys": []any{""}}}},
			"/state/encryption/old_keys/0"),
		Entry("values for paks in a list", properties{"config": []any{}}, "/config"),
		Entry("an unknown log level", properties{"log_level": "trace"}, "/log_level"),
		Entry("a budget without a unit", properties{"budget": "45"}, "/budget"),
		Entry("a limit without a unit", properties{"errand_limit": 7200}, "/errand_limit"),
		Entry("an empty intent", properties{"intent": ""}, "/intent", "apply-instance"),
		Entry("an intent that is not a text",
			properties{"intent": properties{"format": 1}}, "/intent", "apply-instance"),
		Entry("secrets that are not a mapping", properties{"secrets": []any{"a"}}, "/secrets", "apply-instance"),
		Entry("an empty id of an instance", properties{"instance_id": ""}, "/instance_id", "destroy-instance"),
		Entry("an id of an instance that a shell cannot pass as an argument",
			properties{"instance_id": "i\x001"}, "/instance_id",
			"destroy-instance"),
	)

	DescribeTable("runs the adapter as vcap with its own configuration",
		func(ctx context.Context, job string, values properties, arguments ...string) {
			output, err := install(ctx, job, errand(job, values), stand).run(ctx, "/var/vcap/jobs/"+job+"/bin/run")
			Expect(err).To(MatchError("exit status 3"), "the exit code of the adapter is that of the errand")
			Expect(output).To(Equal("vcap\nSERVICE_ADAPTER_CONFIG=/var/vcap/jobs/" + job + "/" + configFile +
				"\nSERVICE_ADAPTER_ERRAND=" + job + "\nTMPDIR=/var/vcap/data/" + job + "/tmp\n" +
				"<" + strings.Join(arguments, ">\n<") + ">\n"))
		},
		Entry(nil, "apply-instance", properties{}, "instance", "apply", "--intent",
			"/var/vcap/jobs/apply-instance/config/intent.json"),
		Entry(nil, "destroy-instance", properties{}, "instance", "destroy", "--force", "--", "i1"),
		Entry("of an instance whose id contains every special text",
			"destroy-instance", properties{"instance_id": everyText()},
			"instance", "destroy", "--force", "--", everyText()),
	)

	// surroundings replaces the adapter and prints its environment, as far as other programs depend on it: other
	// processes on a VM have the group vcap, and the agent stops the process that it started and reads its exit code.
	const surroundings = `#!/bin/bash
echo "$$ $PPID" >started
pwd
echo "$PATH"
grep NoNewPrivs /proc/self/status
cd "$(dirname "$SERVICE_ADAPTER_CONFIG")"
stat -c '%U:%G %a %n' *
cat * >/dev/null
stat -c '%U:%G %a %n' "${TMPDIR%/tmp}" "${TMPDIR%/tmp}"/*
`

	DescribeTable("gives the adapter files and directories that no other user can read",
		func(ctx context.Context, job string) {
			site := install(ctx, job, errand(job, nil), surroundings)
			private := "vcap:vcap 600 "
			files := private + filepath.Base(configFile) + "\n"
			if job == "apply-instance" {
				files = private + filepath.Base(intentFile) + "\n" + files
			}
			data := "/var/vcap/data/" + job
			wanted := data + "/tmp\n/usr/bin:/bin\nNoNewPrivs:\t1\n" + files +
				"root:root 755 " + data + "\nvcap:vcap 700 " + data + "/cache\nvcap:vcap 700 " + data + "/tmp\n"
			// This file is in a directory with another owner and mode.
			unsaved := filepath.Join(site.vcap, "data", job, "cache", "unsaved")
			writeFile("a state", unsaved)
			for range 2 { // errands are run again, after a change and without a change
				output, err := site.run(ctx, "/var/vcap/jobs/"+job+"/bin/run")
				Expect(err).NotTo(HaveOccurred(), output)
				Expect(output).To(Equal(wanted))
			}
			Expect(unsaved).To(BeARegularFile(), "a file that the adapter keeps for its next run")
		}, eachJob())

	DescribeTable("changes nothing behind a link that vcap put in place of its directories",
		func(ctx context.Context, job string) {
			site := install(ctx, job, errand(job, nil), surroundings)
			data := site.linkDirectories(job, "cache", "tmp")
			output, err := site.run(ctx, "/var/vcap/jobs/"+job+"/bin/run")
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(output).To(ContainSubstring("root:root 755 /var/vcap/data/" + job + "\nvcap:vcap 700 "))
			site.expectUntouched(data, "cache", "tmp")
		}, eachJob())

	DescribeTable("is replaced by the adapter's process, which therefore receives the agent's signals",
		func(ctx context.Context, job string) {
			site := install(ctx, job, errand(job, nil), surroundings)
			output, err := site.run(ctx, "/bin/bash", "-c",
				`echo "$$ $PPID" >/var/vcap/data/agent; exec /var/vcap/jobs/`+job+`/bin/run`)
			Expect(err).NotTo(HaveOccurred(), output)
			Expect(readFile(site.vcap, "data", job, "tmp", "started")).To(Equal(readFile(site.vcap, "data", "agent")))
		}, eachJob())
})

// linkDirectories puts links to a directory of root into the data directory of a job, which the group vcap can write as
// the agent leaves it, and returns the path of the data directory.
func (v *vm) linkDirectories(job string, names ...string) string {
	GinkgoHelper()
	data := filepath.Join(v.vcap, "data", job)
	Expect(os.MkdirAll(data, 0o755)).To(Succeed())
	Expect(os.Chown(data, 0, vcapID)).To(Succeed())
	Expect(os.Chmod(data, 0o770)).To(Succeed())
	Expect(os.Mkdir(filepath.Join(v.vcap, "store", "roots-own"), 0o750)).To(Succeed())
	for _, name := range names {
		Expect(os.Symlink("/var/vcap/store/roots-own", filepath.Join(data, name))).To(Succeed())
	}
	return data
}

// expectUntouched asserts that the directory behind the links of linkDirectories is as it was, and that directories of
// vcap have replaced the links.
func (v *vm) expectUntouched(data string, names ...string) {
	GinkgoHelper()
	info, err := os.Stat(filepath.Join(v.vcap, "store", "roots-own"))
	Expect(err).NotTo(HaveOccurred())
	Expect(info.Mode()).To(Equal(fs.ModeDir | 0o750))
	Expect(stat(info).Uid).To(BeZero())
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(data, name))
		Expect(err).NotTo(HaveOccurred())
		Expect(info.Mode()).To(Equal(fs.ModeDir|0o700), name)
		Expect(stat(info).Uid).To(BeEquivalentTo(vcapID), name)
	}
}

// everyText returns an id that contains all texts with a meaning in a shell, and begins like an option.
func everyText() string {
	all := "--all"
	for _, text := range hostile() {
		if text != "\x00" { // an argument cannot contain it
			all += "|" + text.(string)
		}
	}
	return all
}

var _ = Describe("The job apply-instance", func() {
	It("renders the intent and every secret unchanged", func(ctx context.Context) {
		secrets := properties{"certificate": properties{
			"ca":    "-----BEGIN\nEND-----\n",
			"chain": []any{"\u2029", 1.5, true, nil},
		}}
		for _, text := range hostile() {
			secrets[text.(string)] = text
		}
		for _, intent := range append(hostile(), `{"inputs":{"text":"\u0028\u0028x))\n\"'"}}`) {
			if intent == "" {
				continue // the schema rejects it
			}
			text := render(ctx, "apply-instance",
				errand("apply-instance", properties{"intent": intent, "secrets": secrets}))[intentFile]
			var read map[string]any
			Expect(json.Unmarshal([]byte(text), &read)).To(Succeed())
			Expect(read).To(Equal(properties{"intent": intent, "secrets": secrets}))
			Expect(strings.ContainsAny(text, escaped)).To(BeFalse())
		}
	})

	It("does not require secrets", func(ctx context.Context) {
		Expect(render(ctx, "apply-instance",
			errand("apply-instance", nil))[intentFile]).To(MatchJSON(`{"intent": "{\"format\":1}", "secrets": {}}`))
	})
})
