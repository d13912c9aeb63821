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
	"unicode"

	"service-adapter/internal/value"
)

// The adapter adds two resources and an output to every template that it applies. These are their names in the states.
const (
	// GuardAddress is the address of the guard: the resource that reserves the workspace and holds the record. It
	// exists before any other resource is created, and is removed after all others.
	GuardAddress = "terraform_data._binding"
	// CompleteAddress is the address of the mark of a complete apply: a resource that OpenTofu creates after all
	// others. It holds the digest of the record that was applied.
	CompleteAddress = "terraform_data._complete"
	// AppliedOutput is the name of the output that holds the record of the last complete apply.
	AppliedOutput = "_binding_applied"
)

// A State is the decoded content of the unencrypted state of one workspace, as Parse and Encryption.Open return it. It
// contains the record, the nonce and the other information that the adapter stores through its own resources and
// output, the outputs, and the addresses of the resources, together with the text of the state. An apply is complete
// when OpenTofu has created or changed all resources of the template. A zero or empty field means that the state lacks
// this information. A nil *State stands for a state without resources and outputs, which counts as missing; its methods
// must not be called.
type State struct {
	// TofuVersion is the version of the OpenTofu that reserved the workspace or, since then, last applied to it. It is
	// "" without a guard. Destroying and importing do not change it.
	TofuVersion string
	// Record is the record in the guard, nil without a guard.
	Record []byte
	// Nonce identifies the reservation of the workspace, which created the guard. It is "" without a guard.
	Nonce string
	// Applied is the record of the last complete apply, nil if there was none. It differs from Record until an apply
	// with a new record is complete.
	Applied []byte
	// Complete reports whether the state contains the mark of a complete apply of Record. A destroy removes the mark
	// before it destroys resources; a later apply of the same record that fails leaves it.
	Complete bool
	// Destroying reports whether an apply was complete once and a destroy, or Forget, began since. It stays true until
	// the next complete apply.
	Destroying bool
	// Outputs are the values of all outputs by name, including the sensitive ones and without AppliedOutput.
	Outputs map[string]any
	// Resources are the addresses of the managed resources, without instance keys, sorted. The guard and the mark of a
	// complete apply are not among them.
	Resources []string
	// Providers are the providers of Resources as host/namespace/type, sorted, without the built-in provider.
	Providers []string

	// HasCompleteMark reports whether the state contains the mark of a complete apply, of Record or of an earlier
	// record.
	HasCompleteMark bool
	// Instances are the addresses of the instances of Resources, with instance keys, in the order of the state.
	Instances []string
	// Text is the state in OpenTofu's format, unencrypted.
	Text []byte
}

// stateFormat is the part of OpenTofu's state format, version 4, that this package reads from the JSON of a state. Two
// of its fields are set only if the state is encrypted. A missing key yields a zero field.
type stateFormat struct {
	Version int    `json:"version"`
	Tofu    string `json:"terraform_version"`
	Serial  *int   `json:"serial"`
	Lineage string `json:"lineage"`
	Outputs map[string]struct {
		Value any `json:"value"`
	} `json:"outputs"`
	Resources []stateResource `json:"resources"`
	// Encrypted and Encryption are set if the state is encrypted.
	Encrypted  json.RawMessage `json:"encrypted_data"`
	Encryption string          `json:"encryption_version"`
}

// stateResource is a managed resource or a data source in the JSON of a state, with its instances. A State contains
// neither the addresses of data sources nor those of resources without instances.
type stateResource struct {
	Module    string `json:"module"`
	Mode      string `json:"mode"`
	Type      string `json:"type"`
	Name      string `json:"name"`
	Provider  string `json:"provider"`
	Instances []struct {
		Key        any `json:"index_key"` // a number, a string or nil
		Attributes struct {
			// These attributes of terraform_data have a dynamic type and the form {"value": …, "type": …}.
			Input    any `json:"input"`
			Triggers any `json:"triggers_replace"`
		} `json:"attributes"`
	} `json:"instances"`
}

// address returns the address of a managed resource without its instance key, such as "module.db.random_string.name".
// The address of the module contains the keys of the module's instances. address must not be called for a data source,
// whose address begins with "data.".
func (r stateResource) address() string {
	address := r.Type + "." + r.Name
	if r.Module != "" {
		address = r.Module + "." + address
	}
	return address
}

// Parse reads an unencrypted state in OpenTofu's format, such as the output of "tofu state pull". It returns nil and
// no error for a text that is empty or white space, and for a state without resources and outputs, because such a
// workspace counts as missing; a data source, and a resource without instances, also count as resources here. Parse
// returns nil and an error if the text is not exactly one JSON document, if a field has another type than in
// OpenTofu's format, if the state is encrypted, or if it has another format version than 4.
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

// state returns the content of file, a decoded state, as a State whose field Text is the parameter text. The caller
// passes the unencrypted text from which file was decoded. The result is nil, without an error, if the state has no
// resources and no outputs; a data source, and a resource without instances, also count as resources here. state
// returns nil and an error if the state is encrypted or has another format version than 4.
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

// addResources sets the fields of the state that depend on its resources, which are all resources of the stored state.
// These fields are TofuVersion, Record, Nonce, Complete, Destroying, Resources, Instances, Providers and
// HasCompleteMark; they must be zero before. Applied must be set before, because Destroying depends on it. Data sources
// and resources without instances are ignored.
func (s *State) addResources(resources []stateResource) {
	var mark string // the digest of a record, in the mark of a complete apply
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
			s.HasCompleteMark = true
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
	s.Destroying = s.Applied != nil && !s.HasCompleteMark
	s.Resources = slices.Compact(slices.Sorted(slices.Values(s.Resources)))
	s.Providers = slices.Compact(slices.Sorted(slices.Values(s.Providers)))
}

// valueOf returns the value of an attribute of a dynamic type, which a state stores as the JSON object {"value": …,
// "type": …}. The parameter is the decoded attribute. valueOf returns nil if it is not an object or has no key "value".
func valueOf(dynamic any) any {
	object, _ := dynamic.(map[string]any)
	return object["value"]
}

// addProvider appends the provider of a resource to Providers as host/namespace/type, also if it is among them already.
// The parameter is the provider's address in the state, such as provider["registry.opentofu.org/hashicorp/random"],
// optionally with the prefix "module.x." and the suffix ".alias". The built-in provider terraform.io/builtin/terraform
// and addresses of another form are ignored.
func (s *State) addProvider(address string) {
	_, rest, _ := strings.Cut(address, `provider["`)
	name, _, _ := strings.Cut(rest, `"]`)
	if name != "" && !strings.HasPrefix(name, "terraform.io/builtin/") {
		s.Providers = append(s.Providers, name)
	}
}

// instanceKey returns the end of the address of a resource instance. The parameter is the decoded key of the instance
// in the state: ["name"] is returned for the string name, [0] for the number 0, and "" for nil, the key of the only
// instance of a resource without count and for_each. Strings are quoted as OpenTofu quotes them in addresses.
func instanceKey(key any) string {
	switch key := key.(type) {
	case nil:
		return ""
	case string:
		quoted := strings.NewReplacer(
			`\`, `\\`, `"`, `\"`, "\n", `\n`, "\r", `\r`, "\t", `\t`, "${", "$${", "%{", "%%{")
		var text strings.Builder
		for _, char := range quoted.Replace(key) {
			switch {
			case unicode.IsPrint(char):
				text.WriteRune(char)
			case char < 1<<16:
				fmt.Fprintf(&text, `\u%04x`, char)
			default:
				fmt.Fprintf(&text, `\U%08x`, char)
			}
		}
		return `["` + text.String() + `"]`
	default:
		return fmt.Sprintf("[%v]", key)
	}
}

// SplitAddress splits the address of a resource outside of modules, such as "random_string.name", into its type and its
// name at the first dot. It does not check the form. It returns an address without a dot as the type, with an empty
// name.
func SplitAddress(address string) (kind, name string) {
	kind, name, _ = strings.Cut(address, ".")
	return kind, name
}

// Has reports whether the state contains a managed resource of this address other than the guard and the mark of a
// complete apply, which the adapter adds. The address is that of a resource instance, such as random_string.name[0],
// of a resource, such as random_string.name, or of a module that contains a resource, such as module.db or
// module.db[0]. An address that ends without an instance key matches each instance of the resource or the module:
// module.db also matches resources in module.db[0]. Has returns false for an empty address and for a data source. The
// receiver must not be nil.
func (s *State) Has(address string) bool {
	return slices.ContainsFunc(s.Instances, func(instance string) bool {
		rest, matches := strings.CutPrefix(instance, address)
		return matches && (rest == "" || rest[0] == '[' || rest[0] == '.' && strings.HasPrefix(address, "module."))
	})
}

// SensitiveValues returns the values of the attributes of resources and data sources that the state marks as sensitive,
// in the order of the state and with duplicates. Outputs are left out: the adapter declares all of them sensitive, so
// the state does not show which of them the template protects. The guard, the resource that holds the adapter's record,
// is left out because its whole record is marked although most of it is not secret. An element may be a list or an
// object, and is nil if the state has no value at a marked path. The result is nil if the state marks no attributes, or
// if Text is not a JSON object. The receiver must not be nil.
func (s *State) SensitiveValues() []any {
	file, err := value.DecodeObject(s.Text)
	if err != nil {
		return nil // Parse returns this error
	}
	var values []any
	for _, resource := range value.Mappings(file["resources"]) {
		if isGuard(resource) {
			continue
		}
		for _, instance := range value.Mappings(resource["instances"]) {
			paths, _ := instance["sensitive_attributes"].([]any)
			for _, path := range paths {
				values = append(values, valueAt(instance["attributes"], value.Mappings(path)))
			}
		}
	}
	return values
}

// isGuard reports whether a resource of a state is the guard, the resource terraform_data._binding outside of all
// modules, in which the adapter stores its record. The parameter is the decoded JSON object of the resource.
func isGuard(resource map[string]any) bool {
	kind, name := SplitAddress(GuardAddress)
	return resource["type"] == kind && resource["name"] == name && resource["module"] == nil
}

// valueAt returns the value at the end of a path in item, the decoded attributes of a resource instance. An empty path
// yields item itself, unwrapped like any other value. Values in the form {"value": …, "type": …} of a dynamic type are
// unwrapped on the way and at the end. The result is nil if the path leads to a missing attribute or index, or to null.
// path is an element of "sensitive_attributes" in a state. Each step is an object whose "value" is the name of an
// attribute, or an object with the type and the value of an index, which is a string or an integer. A step without such
// a value is skipped. item and path must be decoded with package value, so that integers are of the type int64.
func valueAt(item any, path []map[string]any) any {
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

// undynamic unwraps the form that a state uses for a value of a dynamic type: for a map with exactly the keys "value"
// and "type", whose type is not nil, it returns the value. It returns any other item unchanged, such as a map with
// further keys, a scalar or nil.
func undynamic(item any) any {
	if dynamic, ok := item.(map[string]any); ok && len(dynamic) == 2 && dynamic["type"] != nil {
		if inner, ok := dynamic["value"]; ok {
			return inner
		}
	}
	return item
}
