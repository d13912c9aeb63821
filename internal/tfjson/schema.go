package tfjson

import (
	"encoding/json"
	"fmt"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Nesting modes of nested blocks and of attributes with attributes of their own. Attributes have no group.
const (
	NestingSingle = "single" // an object or null
	NestingGroup  = "group"  // an object, whose attributes are null where the configuration has no block
	NestingList   = "list"   // a list of objects
	NestingSet    = "set"    // a list of objects, too
	NestingMap    = "map"    // an object of objects; the keys are the labels of blocks
)

// Block is the schema of a resource or of a nested block.
type Block struct {
	Attributes map[string]Attribute   `json:"attributes"`
	BlockTypes map[string]NestedBlock `json:"block_types"`
}

// NestedBlock is the schema of a kind of nested blocks.
type NestedBlock struct {
	NestingMode string `json:"nesting_mode"`
	Block       Block  `json:"block"`
}

// Attribute is the schema of an attribute. Nested is nil for one that has only a type.
type Attribute struct {
	Nested    *NestedAttributes `json:"nested_type"`
	Required  bool              `json:"required"`
	Optional  bool              `json:"optional"`
	Computed  bool              `json:"computed"`
	Sensitive bool              `json:"sensitive"`
}

// Settable tells whether a configuration may set an attribute; all others are only computed.
func (a Attribute) Settable() bool { return a.Required || a.Optional }

// NestedAttributes are the attributes within an attribute.
type NestedAttributes struct {
	NestingMode string               `json:"nesting_mode"`
	Attributes  map[string]Attribute `json:"attributes"`
}

// Schemas are the schemas of the providers of a configuration. They may be tens of megabytes, so a resource is decoded when it
// is asked for.
type Schemas struct {
	Providers map[string]struct {
		Resources map[string]json.RawMessage `json:"resource_schemas"`
	} `json:"provider_schemas"`
}

// DecodeSchemas reads the output of "tofu providers schema -json".
func DecodeSchemas(schemaJSON []byte) (*Schemas, error) {
	read := &Schemas{}
	if err := value.Decode(schemaJSON, read); err != nil {
		return nil, fmt.Errorf("reading the schemas of the providers: %w", err)
	}
	return read, nil
}

// Resource returns the schema of a type of managed resources.
func (s *Schemas) Resource(providerAddress, resourceType string) (*Block, error) {
	from, ok := s.Providers[providerAddress]
	if !ok {
		return nil, fmt.Errorf("OpenTofu gave no schema of the provider %s; it has those of %s",
			providerAddress, diag.Names(value.Keys(s.Providers)))
	}
	raw, ok := from.Resources[resourceType]
	if !ok {
		return nil, fmt.Errorf("the provider %s has no resources of the type %s", providerAddress, resourceType)
	}
	var read struct {
		Block Block `json:"block"`
	}
	if err := value.Decode(raw, &read); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", resourceType, err)
	}
	return &read.Block, nil
}

// Has tells whether a path of names, of attributes and of nested blocks, is one of a block.
func (b Block) Has(path []string) bool {
	if nested, ok := b.BlockTypes[path[0]]; ok {
		return len(path) == 1 || nested.Block.Has(path[1:])
	}
	return hasAttribute(b.Attributes, path)
}

func hasAttribute(attributes map[string]Attribute, path []string) bool {
	attribute, ok := attributes[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	return attribute.Nested != nil && hasAttribute(attribute.Nested.Attributes, path[1:])
}
