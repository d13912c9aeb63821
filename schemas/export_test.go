package schemas

import "service-adapter/brokerpak"

// Accepts shows accepts to the tests.
func Accepts(tree map[string]any) bool { return accepts(tree) }

// Validate shows validate to the tests.
func Validate(inputs []brokerpak.Variable, values map[string]any) error {
	return validate(inputs, values)
}
