package statestore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"service-adapter/internal/value"
)

// What this adapter adds to a configuration, as it stands in the states: the guard, the mark of an apply that made everything, and the
// output with the record of the last such apply.
const (
	GuardAddress    = "terraform_data._binding"
	CompleteAddress = "terraform_data._complete"
	AppliedOutput   = "_binding_applied"
)

// State is what a workspace's state tells.
type State struct {
	// TofuVersion is the version of the OpenTofu that reserved or, since then, last applied; "" without a guard. To destroy, to
	// import and the like do not change it.
	TofuVersion string
	// Record is the input of the guard, and Nonce the mark of the Reservation that made it; nil and "" without a guard.
	Record []byte
	Nonce  string
	// Applied is the record of the last apply that made everything, nil when there was none. It is not Record while an apply with
	// a new record has not been complete.
	Applied []byte
	// Complete tells whether the last apply with this record made everything. It is false again once a destroy began.
	Complete bool
	// Destroying tells whether everything was made once and a destroy, or Forget, began since. It stays true until an apply is
	// complete.
	Destroying bool
	// Outputs are the values of the outputs, sensitive ones too.
	Outputs map[string]any
	// Resources are the addresses of the managed resources without instance keys and without the guard, sorted.
	Resources []string
	// Providers are the providers of the resources as host/namespace/type, without the built-in one, sorted.
	Providers []string

	// Marked tells whether the mark of a complete apply is there, of whatever record.
	Marked bool
	// Instances are the addresses of the managed resources with instance keys, without the guard.
	Instances []string
	// Text is the state file.
	Text []byte
}

// stateFormat is OpenTofu's state format, version 4, as far as it matters here.
type stateFormat struct {
	Version int    `json:"version"`
	Tofu    string `json:"terraform_version"`
	Serial  *int   `json:"serial"`
	Lineage string `json:"lineage"`
	Outputs map[string]struct {
		Value any `json:"value"`
	} `json:"outputs"`
	Resources []stateResource `json:"resources"`
	// Encrypted and Encryption are those of an encrypted state that was read as a file.
	Encrypted  json.RawMessage `json:"encrypted_data"`
	Encryption string          `json:"encryption_version"`
}

type stateResource struct {
	Module    string `json:"module"`
	Mode      string `json:"mode"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Instances []struct {
		Key        any `json:"index_key"` // a number, a string or nil
		Attributes struct {
			// What terraform_data has of a dynamic type, {"value": …, "type": …}.
			Input    any `json:"input"`
			Triggers any `json:"triggers_replace"`
		} `json:"attributes"`
	} `json:"instances"`
}

func (r stateResource) address() string {
	address := r.Type + "." + r.Name
	if r.Module != "" {
		address = r.Module + "." + address
	}
	return address
}

// Parse reads the output of "state pull". A state without resources and outputs, and no output at all, give nil: such a
// workspace is the same as none.
func Parse(text []byte) (*State, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, nil
	}
	var file stateFormat
	if err := value.Decode(text, &file); err != nil {
		return nil, fmt.Errorf("reading state: %w", err)
	}
	return file.state(text)
}

// state is what the file with this text tells.
func (file *stateFormat) state(text []byte) (*State, error) {
	if file.Encrypted != nil {
		return nil, errors.New("reading state: the state is encrypted; set state.encryption")
	}
	if file.Version != 4 {
		return nil, fmt.Errorf("reading state: format version %d is not supported", file.Version)
	}
	if len(file.Resources) == 0 && len(file.Outputs) == 0 {
		return nil, nil
	}
	s := &State{Outputs: map[string]any{}, Text: text}
	for name, output := range file.Outputs {
		s.Outputs[name] = value.Normalise(output.Value)
	}
	if applied, ok := s.Outputs[AppliedOutput].(string); ok {
		s.Applied = []byte(applied)
	}
	delete(s.Outputs, AppliedOutput)
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
		case GuardAddress:
			guard, _ := valueOf(r.Instances[0].Attributes.Input).(map[string]any)
			record, _ := guard["record"].(string)
			s.TofuVersion, _ = guard["tofu"].(string)
			s.Record = []byte(record)
			s.Nonce, _ = valueOf(r.Instances[0].Attributes.Triggers).(string)
		case CompleteAddress:
			s.Marked = true
			mark, _ = valueOf(r.Instances[0].Attributes.Input).(string)
		default:
			s.Resources = append(s.Resources, address)
			for _, instance := range r.Instances {
				s.Instances = append(s.Instances, address+instanceKey(instance.Key))
			}
			s.addProvider(r.Provider)
		}
	}
	sum := sha256.Sum256(s.Record)
	s.Complete = s.Nonce != "" && mark == hex.EncodeToString(sum[:])
	s.Destroying = s.Applied != nil && !s.Marked
	s.Resources = slices.Compact(slices.Sorted(slices.Values(s.Resources)))
	s.Providers = slices.Compact(slices.Sorted(slices.Values(s.Providers)))
}

// valueOf is the value of a dynamic type in a state; nil for what has another shape.
func valueOf(dynamic any) any {
	object, _ := dynamic.(map[string]any)
	return object["value"]
}

// addProvider reads an address like module.x.provider["host/namespace/type"].alias.
func (s *State) addProvider(address string) {
	_, rest, _ := strings.Cut(address, `provider["`)
	name, _, _ := strings.Cut(rest, `"]`)
	if name != "" && !strings.HasPrefix(name, "terraform.io/builtin/") {
		s.Providers = append(s.Providers, name)
	}
}

// instanceKey is the end of the address of an instance: ["name"], [0] or nothing.
func instanceKey(key any) string {
	switch key := key.(type) {
	case nil:
		return ""
	case string:
		return fmt.Sprintf("[%q]", key)
	default:
		return fmt.Sprintf("[%v]", key)
	}
}

// SplitAddress splits "type.name".
func SplitAddress(address string) (kind, name string) {
	kind, name, _ = strings.Cut(address, ".")
	return kind, name
}

// Has tells whether the state has a managed resource of this address, other than the guard.
func (s *State) Has(address string) bool {
	return slices.ContainsFunc(s.Instances, func(instance string) bool {
		rest, found := strings.CutPrefix(instance, address)
		return found && (rest == "" || rest[0] == '[' || rest[0] == '.' && strings.HasPrefix(address, "module."))
	})
}

// SensitiveValues are the values of the sensitive attributes in a state, without those of the guard, whose record is marked as a whole.
func (s *State) SensitiveValues() []any {
	file, err := value.DecodeObject(s.Text)
	if err != nil {
		return nil // Parse tells
	}
	var values []any
	for _, resource := range value.Mappings(file["resources"]) {
		if isGuard(resource) {
			continue
		}
		for _, instance := range value.Mappings(resource["instances"]) {
			paths, _ := instance["sensitive_attributes"].([]any)
			for _, path := range paths {
				values = append(values, follow(instance["attributes"], value.Mappings(path)))
			}
		}
	}
	return values
}

// isGuard tells whether a resource of a state is the guard.
func isGuard(resource map[string]any) bool {
	kind, name := SplitAddress(GuardAddress)
	return resource["type"] == kind && resource["name"] == name && resource["module"] == nil
}

// follow returns what a path of a state leads to, nil where it leads nowhere. The value of a step is a name, or an index, which is an object with
// the type and the value.
func follow(item any, path []map[string]any) any {
	for _, step := range path {
		key := step["value"]
		if index, ok := key.(map[string]any); ok {
			key = index["value"]
		}
		object, _ := undynamic(item).(map[string]any)
		list, _ := undynamic(item).([]any)
		switch key := key.(type) {
		case string:
			item = object[key]
		case int64:
			item = nil
			if key >= 0 && key < int64(len(list)) {
				item = list[key]
			}
		}
	}
	return undynamic(item)
}

// undynamic returns a value of a dynamic type, which is in an object with its type, and any other as it is.
func undynamic(item any) any {
	if dynamic, ok := item.(map[string]any); ok && len(dynamic) == 2 && dynamic["type"] != nil {
		if inner, ok := dynamic["value"]; ok {
			return inner
		}
	}
	return item
}
