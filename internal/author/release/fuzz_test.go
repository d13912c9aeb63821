package release_test

import (
	"reflect"
	"strings"
	"testing"

	"service-adapter/internal/author/release"
)

// FuzzReadTarball asserts that the reader of tarballs does not panic, and that every release that it accepts is
// complete. The parts of the archive are fuzzed before they are compressed, because random bytes are hardly ever valid.
func FuzzReadTarball(f *testing.F) {
	f.Add("name: a\nversion: 1\njobs: [{name: b}]\n", "name: b\ntemplates: {c: d}\n", "templates/c", "jobs/b.tgz", "")
	f.Add("name: a\njobs: [{name: b}]\n", "name: c\n", "../monit", "./jobs/b.tgz", "\x1f\x8b\x08")
	f.Add("name: a\njobs:\n", "", "job.MF", "jobs/.tgz", archive(file{"release.MF", "name: a\n"}))
	f.Add("name: &a [*a]\n", "name: &b {c: *b}\n", "templates/", "release.MF", "BZh")
	f.Fuzz(func(t *testing.T, manifest, spec, template, job, raw string) {
		jobArchive := archive(file{"job.MF", spec}, file{clean(template), raw})
		for _, tarball := range []string{
			raw,
			archive(file{"release.MF", manifest}, file{clean(job), jobArchive}),
			archive(file{clean(job), raw}, file{"release.MF", manifest}),
		} {
			opened, err := release.ReadTarball(t.Context(), "r.tgz", strings.NewReader(tarball))
			if err != nil {
				if !strings.HasPrefix(err.Error(), "r.tgz") {
					t.Fatalf("the error %q does not name the file", err)
				}
				continue
			}
			if opened.Name == "" {
				t.Fatal("the release has no name")
			}
			for _, job := range opened.Jobs {
				if job.Name == "" || job.Properties == nil || job.Templates == nil {
					t.Fatalf("incomplete: %#v", job)
				}
			}
		}
	})
}

// clean returns a name that an archive can have.
func clean(name string) string {
	valid := strings.ToValidUTF8(strings.ReplaceAll(name[:min(len(name), 90)], "\x00", ""), "")
	if valid == "" || strings.HasSuffix(valid, "/") {
		valid += "x" // a file's name cannot end with a slash
	}
	return "./" + valid
}

// FuzzParseSpec asserts that the parser of job specs does not panic, that its result does not change, and that its
// errors name the file.
func FuzzParseSpec(f *testing.F) {
	for _, spec := range []string{
		serverSpec, "name: a\nproperties: {a.b: {default: *x}}\n", "name: a\nproperties: {a: {default: !!binary x}}\n",
		"name: a\nproperties: {a: {default: {<<: [1]}}}\n", "name: a\nconsumes: [{name: a, type: b, optional: {}}]\n",
		"name: a\nproperties: {a: {default: .nan, example: 0x1F}, ? [b] : c}\n",
		"name: !!int a\nproperties: {a: {default: !!timestamp x}}\n",
	} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		first, templates, err := release.ParseSpec("spec", spec)
		second, again, errAgain := release.ParseSpec("spec", spec)
		if (err == nil) != (errAgain == nil) || !reflect.DeepEqual(templates, again) {
			t.Fatalf("%v\n%v", err, errAgain)
		}
		if err != nil {
			if !strings.HasPrefix(err.Error(), "spec:") {
				t.Fatalf("the error %q does not name the file", err)
			}
			return
		}
		if first.Name == "" || len(first.Properties) != len(second.Properties) {
			t.Fatalf("%#v\n%#v", first, second)
		}
		for name, property := range first.Properties {
			if property.HasDefault != (property.Default != nil) {
				t.Fatalf("%s: %#v", name, property)
			}
		}
	})
}

// FuzzReads asserts that the reader of templates does not panic, and that every read is in a line that contains the
// name of its property.
func FuzzReads(f *testing.F) {
	for _, template := range []string{
		"<% if_p('a') do |a| %><%= p('b') %><% end.else do %><% end %>", "<%= \"#{p('a')}\" if !p('b') %>",
		"<% case p('a')\nwhen /b/ then %w(c) end %>", "<% x.map { |y| [p 'c'] } -%>", "<%% <%# %> <%= ) %>",
		"<% while p('a') do next end; for x in y do end %>", "<% begin; p(\"a\\n\") rescue 1; end %>",
	} {
		f.Add(template)
	}
	f.Fuzz(func(t *testing.T, template string) {
		job := release.Job{Templates: map[string]string{"a": template}}
		lines := strings.Split(template, "\n")
		for _, read := range job.Reads() {
			if read.Line < 1 || read.Line > len(lines) {
				t.Fatalf("%q has no line %d", template, read.Line)
			}
			if !strings.Contains(lines[read.Line-1], "p") {
				t.Fatalf("line %d of %q has no call", read.Line, template)
			}
		}
	})
}
