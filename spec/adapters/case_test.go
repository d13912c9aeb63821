package adapters_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

// object is a JSON object.
type object = map[string]any

// A recorded is a request of the broker to another adapter with that adapter's answer.
type recorded struct {
	// name is the name of the file without its extension.
	name    string
	Adapter string
	Command string
	// Input is the input from the broker, with JSON and YAML texts decoded.
	Input object
	Exit  int
	// Stdout is the decoded standard output if the command succeeded, and the user's message otherwise.
	Stdout any
	// Stderr contains the last lines for the operator.
	Stderr string
	// Commands contains the arguments of each call of the service's client.
	Commands []string
	// Told contains the commands that the stub of MongoDB received.
	Told []any
	// Asked contains the requests to Ops Manager with their answers.
	Asked []any
	// Held is the file in which the generic adapter records the values taken from its pools.
	Held any
	// projects contains the operator's projects, if they are not the recorded one.
	projects object
	// RandomPaths contains the paths at which two runs return different values, as JSON pointers.
	RandomPaths []string
}

// casesOf returns all cases of an adapter, sorted by name.
func casesOf(adapter string) []recorded {
	files, err := filepath.Glob(filepath.Join("testdata", adapter, "[0-9]*.json"))
	if err != nil {
		panic(err) // the pattern is constant
	}
	cases := make([]recorded, len(files))
	for i, file := range files {
		if cases[i], err = readCase(file); err != nil {
			panic(file + ": " + err.Error())
		}
	}
	return cases
}

// readCase decodes the file of a case. Numbers that are integers remain integers.
func readCase(file string) (recorded, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return recorded{}, err
	}
	read := recorded{name: strings.TrimSuffix(filepath.Base(file), ".json")}
	tree, err := value.DecodeObject(text) // keeps integers
	if err != nil {
		return recorded{}, err
	}
	fields := struct {
		Adapter, Command string
		Exit             int
		Stderr           string   `json:"stderr_excerpt"`
		Commands         []string `json:"commands"`
		RandomPaths      []string `json:"random_paths"`
	}{}
	if err := json.Unmarshal(text, &fields); err != nil {
		return recorded{}, err
	}
	read.Adapter, read.Command, read.Exit, read.Stderr = fields.Adapter, fields.Command, fields.Exit, fields.Stderr
	read.Commands = fields.Commands
	for _, path := range fields.RandomPaths {
		if path == "/stdout" || strings.HasPrefix(path, "/stdout/") {
			// the other paths are those of requests to external services
			read.RandomPaths = append(read.RandomPaths, path)
		}
	}
	read.Asked, _ = tree["http_requests"].([]any)
	read.Held = tree["store_after"]
	read.Told = maskedCommands(tree["mongodb_commands"])
	read.Input, _ = tree["input"].(object)
	read.Stdout = tree["stdout"]
	return read, nil
}

// text returns an input as YAML, the format of manifests. It returns "" if the input is missing.
func (c recorded) text(key string) string {
	tree := c.Input[key]
	if tree == nil {
		return ""
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		panic(err) // the value was decoded from JSON
	}
	return string(text)
}

// request returns the body of the request.
func (c recorded) request() object {
	body, _ := c.Input["request_parameters"].(object)
	return body
}

// planSets reports whether the plan has one of these properties.
func (c recorded) planSets(names ...string) bool {
	plan, _ := c.Input["plan"].(object)
	properties, _ := plan["properties"].(object)
	for _, name := range names {
		if properties[name] != nil {
			return true
		}
	}
	return false
}

// refused reports whether the other adapter rejected the request.
func (c recorded) refused() bool { return c.Exit != 0 }
