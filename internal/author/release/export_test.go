package release

// ReadTarball and ParseSpec are the parsers of the content of releases, for fuzzers.
var (
	ReadTarball = readTarball
	ParseSpec   = parseSpec
)
