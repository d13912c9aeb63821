package brokerpak_test

import (
	"reflect"
	"regexp"
	"testing"

	"service-adapter/brokerpak"
)

// FuzzPatterns compares the checks that are plain code, for a fast start, with the regular expressions that say what they mean.
func FuzzPatterns(f *testing.F) {
	is := map[*regexp.Regexp]func(string) bool{
		regexp.MustCompile(`^([-a-zA-Z0-9_]*\.[-a-zA-Z0-9_]*){2}`):                                          brokerpak.IsAttribute,
		regexp.MustCompile(`-[0-9]+$`):                                                                      brokerpak.IsNumberedName,
		regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`):                                   brokerpak.IsSecretName,
		regexp.MustCompile(`^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$`): brokerpak.IsUUID,
	}
	condition := regexp.MustCompile(`^(>=|<=|>|<|=|!=)?\s*(\S+)$`)
	variable := regexp.MustCompile(`\(\( ?!?([-/\w]+)`)
	for _, text := range []string{
		"", ">= 4.1", "<6", "=\t1", "!=2", "> = 3", ">=", "4 5", "<\n7", "a.b.c", ".", "..", "a.b", "-a.b-.c", "a-1", "-12", "a-", "a-1b", "_", "a-b_c", "-a",
		"0b6a9c1e-6f0b-4c57-9a52-0d3c8f1b7e01", "0B6A9C1E-6f0b-4c57-9a52-0d3c8f1b7e0g", "((name))", "(( !name/x ))", "((  name))", "(((name))", "((na((name",
	} {
		f.Add(text, "name")
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		for pattern, check := range is {
			if got, want := check(text), pattern.MatchString(text); got != want {
				t.Errorf("%q and %s: got %v", text, pattern, got)
			}
		}
		operator, number, found := brokerpak.CutOperator(text)
		want := condition.FindStringSubmatch(text)
		if found != (want != nil) || found && (operator != want[1] || number != want[2]) {
			t.Errorf("%q: got %q %q %v, want %q", text, operator, number, found, want)
		}
		var places []int
		for _, at := range variable.FindAllStringSubmatchIndex(text, -1) {
			if text[at[2]:at[3]] == name {
				places = append(places, at[0])
			}
		}
		if got := brokerpak.VariablesNamed(name, text); name != "" && !reflect.DeepEqual(got, places) {
			t.Errorf("%q in %q: got %v, want %v", name, text, got, places)
		}
	})
}
