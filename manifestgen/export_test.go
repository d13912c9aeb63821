package manifestgen

// Durable shows durable to the tests.
func Durable(tree any) bool { return durable(tree, 0) }

// Encode returns the text of a tree as the emitter writes it, false when it gave up, and as the library does.
func Encode(tree map[string]any) (text string, ok bool, library string, err error) {
	text, ok = emit(tree)
	library, err = encodeAny(tree)
	return text, ok, library, err
}
