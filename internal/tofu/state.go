package tofu

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/value"
)

// State is what a workspace's state tells.
type State struct {
	// TofuVersion is the version of the OpenTofu that wrote the state.
	TofuVersion string
	// Record is the input of the guard, and Nonce the mark of the reservation that made it; nil and "" without a guard.
	Record []byte
	Nonce  string
	// Complete tells whether the last apply with this record made everything. It is false again once a destroy began.
	Complete bool
	// Outputs are the values of the outputs, sensitive ones too.
	Outputs map[string]any
	// Resources are the addresses of the managed resources without instance keys and without the guard, sorted.
	Resources []string
	// Providers are the providers of the resources as host/namespace/type, without the built-in one, sorted.
	Providers []string

	complete bool // the mark of a complete apply is there, of whatever record
}

// stateFile is OpenTofu's state format, version 4, as far as it matters here.
type stateFile struct {
	Version     int    `json:"version"`
	TofuVersion string `json:"terraform_version"`
	Outputs     map[string]struct {
		Value any `json:"value"`
	} `json:"outputs"`
	Resources []stateResource `json:"resources"`
}

type stateResource struct {
	Module    string `json:"module"`
	Mode      string `json:"mode"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Instances []struct {
		Attributes struct {
			Input    dynamic `json:"input"`
			Triggers dynamic `json:"triggers_replace"`
		} `json:"attributes"`
	} `json:"instances"`
}

// dynamic is a value of a dynamic type in a state, {"value": …, "type": …}. In other shapes, which resources that are not
// terraform_data may have, it stays empty.
type dynamic struct{ text string }

// UnmarshalJSON reads the value when it is a string.
func (d *dynamic) UnmarshalJSON(data []byte) error {
	var v struct {
		Value string `json:"value"`
	}
	if json.Unmarshal(data, &v) == nil {
		d.text = v.Value
	}
	return nil
}

func (r stateResource) address() string {
	address := r.Type + "." + r.Name
	if r.Module != "" {
		address = r.Module + "." + address
	}
	return address
}

// parseState reads the output of "state pull". A state without resources and outputs, and no output at all, give nil: such a
// workspace is the same as none.
func parseState(text []byte) (*State, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var file stateFile
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	if file.Version != 4 {
		return nil, fmt.Errorf("reading state: format version %d is not supported", file.Version)
	}
	if len(file.Resources) == 0 && len(file.Outputs) == 0 {
		return nil, nil
	}
	s := &State{TofuVersion: file.TofuVersion, Outputs: map[string]any{}}
	for name, output := range file.Outputs {
		s.Outputs[name] = value.Normalise(output.Value)
	}
	s.addResources(file.Resources)
	return s, nil
}

func (s *State) addResources(resources []stateResource) {
	var mark string
	for _, r := range resources {
		if r.Mode != "managed" || len(r.Instances) == 0 {
			continue
		}
		switch address := r.address(); address {
		case guardAddress:
			s.Record = []byte(r.Instances[0].Attributes.Input.text)
			s.Nonce = r.Instances[0].Attributes.Triggers.text
		case completeAddress:
			s.complete, mark = true, r.Instances[0].Attributes.Input.text
		default:
			s.Resources = append(s.Resources, address)
			s.addProvider(r.Provider)
		}
	}
	sum := sha256.Sum256(s.Record)
	s.Complete = s.Nonce != "" && mark == hex.EncodeToString(sum[:])
	slices.Sort(s.Resources)
	s.Resources = slices.Compact(s.Resources)
	slices.Sort(s.Providers)
	s.Providers = slices.Compact(s.Providers)
}

// addProvider reads an address like module.x.provider["host/namespace/type"].alias.
func (s *State) addProvider(address string) {
	_, rest, _ := strings.Cut(address, `provider["`)
	name, _, _ := strings.Cut(rest, `"]`)
	if name != "" && !strings.HasPrefix(name, "terraform.io/builtin/") {
		s.Providers = append(s.Providers, name)
	}
}

// splitAddress splits "type.name".
func splitAddress(address string) (kind, name string) {
	kind, name, _ = strings.Cut(address, ".")
	return kind, name
}
