package schemas

// Accepts shows accepts to the tests.
func Accepts(tree map[string]any) bool { return accepts(tree) }
