package hclfile

// Format shows format to the tests.
func Format(text string) string { return format(text) }

// Quoted shows quoted to the tests.
func Quoted(text string) string { return quoted(text) }
