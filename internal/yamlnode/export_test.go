package yamlnode

// Fast tells whether a text is read without the library.
func Fast(text string) bool { return parse(text) != nil }
