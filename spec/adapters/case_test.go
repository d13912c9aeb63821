package adapters_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"gopkg.in/yaml.v3"

	"service-adapter/internal/value"
)

type object = map[string]any

// recorded is a request of the broker to another adapter, and what that answered.
type recorded struct {
	// name is that of the file, without its extension.
	name    string
	Adapter string
	Command string
	// Input is what the broker sent, with JSON and YAML texts decoded.
	Input object
	Exit  int
	// Stdout is decoded where the command succeeded, else what the user reads.
	Stdout any
	// Stderr are the last lines for the operator.
	Stderr string
	// Commands are the arguments of each call of the service's client.
	Commands []string
	// Told are the commands that the stub of MongoDB got.
	Told []any
	// Asked are the requests to Ops Manager, with their answers.
	Asked []any
	// Held is the generic adapter's file of what is taken of its pools.
	Held any
	// projects are those of the operator, where they are not the recorded one.
	projects object
	// RandomPaths are the places of the answer where two runs differ, as JSON pointers.
	RandomPaths []string
}

// casesOf reads all cases of an adapter, by name.
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
			read.RandomPaths = append(read.RandomPaths, path) // others are what was said to services outside
		}
	}
	read.Asked, _ = tree["http_requests"].([]any)
	read.Held = tree["store_after"]
	read.Told = told(tree["mongodb_commands"])
	read.Input, _ = tree["input"].(object)
	read.Stdout = tree["stdout"]
	return read, nil
}

// text is an input as YAML, which manifests are; empty where there is none.
func (c recorded) text(key string) string {
	tree := c.Input[key]
	if tree == nil {
		return ""
	}
	text, err := yaml.Marshal(tree)
	if err != nil {
		panic(err) // it was JSON
	}
	return string(text)
}

// request is the body of the request.
func (c recorded) request() object {
	body, _ := c.Input["request_parameters"].(object)
	return body
}

// planSets tells whether the plan has one of these properties.
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

// refused tells that the other adapter did not do it.
func (c recorded) refused() bool { return c.Exit != 0 }
