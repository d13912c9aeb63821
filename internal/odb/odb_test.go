package odb_test

import (
	"reflect"
	"testing"

	"service-adapter/internal/odb"
)

// TestJobProperties shows that references are replaced by their values anywhere in a text, as the Director does it.
func TestJobProperties(t *testing.T) {
	instance := odb.Instance{Secrets: map[string]string{"((/odb/password))": "p((q))", "((ca.cert))": "CA"}, Manifest: `
instance_groups:
- {name: a, jobs: [{name: other, properties: {x: ((nobody))}}, {name: none}]}
- name: b
  jobs:
  - name: server
    properties: {port: 6379, uri: "redis://:((/odb/password))@host", tls: {ca: ((ca.cert))}, list: [1.5, null]}
`}
	for job, want := range map[string]map[string]any{
		"server": {
			"port": int64(6379), "uri": "redis://:p((q))@host",
			"tls": map[string]any{"ca": "CA"}, "list": []any{1.5, nil},
		},
		"none": {},
	} {
		if got, found, err := instance.JobProperties(job); err != nil || !found || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v %v %v", job, got, found, err)
		}
	}
	if _, found, err := instance.JobProperties("other"); !found || err == nil {
		t.Error("a reference that nobody knows is no error")
	}
	if _, found, err := instance.JobProperties("missing"); found || err != nil {
		t.Error(found, err)
	}
}
