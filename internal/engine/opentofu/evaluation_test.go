package opentofu

import "testing"

func TestInEvaluation(t *testing.T) {
	for address, want := range map[string]bool{
		"":                               true,
		"data.a.b":                       true,
		`data.a.b["c"]`:                  true,
		"module.m.data.a.b":              true,
		`module.m["x.y"].data.a.b`:       true,
		"a.b":                            false,
		`a.b["db.data.example"]`:         false,
		"module.data.a.b":                false,
		`module.m["data."].a.b`:          false,
		`provider["registry/a/b"]`:       false,
		`module.m.provider["x"].data.no`: false,
	} {
		failed := &Error{ExitCode: 1, unmasked: diagnostic{Address: address}}
		if failed.InEvaluation() != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
}
