package tfjson

import (
	"encoding/json"
	"fmt"

	"service-adapter/internal/diag"
	"service-adapter/internal/value"
)

// Nesting modes of nested blocks, and of attributes with nested attributes. Attributes do not use NestingGroup.
const (
	NestingSingle = "single" // an object or null
	NestingGroup  = "group"  // an object, which has null attributes if the configuration has no such block
	NestingList   = "list"   // a list of objects
	NestingSet    = "set"    // a set of objects, which JSON represents as a list
	NestingMap    = "map"    // an object of objects; the keys are the labels of blocks
)

// A Block is the schema of a resource or of a nested block: the schemas of its attributes and of the types of its
// nested blocks, by name. Either map may be nil; the zero value is a block without attributes and nested blocks.
type Block struct {
	Attributes map[string]Attribute   `json:"attributes"`
	BlockTypes map[string]NestedBlock `json:"block_types"`
}

// A NestedBlock is the schema of one type of nested blocks: the schema of each block, and the nesting mode, which
// states how many such blocks may exist and how JSON represents their values. The mode is one of these constants:
// NestingSingle for an object or null, NestingGroup for an object, NestingList and NestingSet for a list of objects,
// and NestingMap for an object of objects. The zero value, without a mode, is not valid.
type NestedBlock struct {
	NestingMode string `json:"nesting_mode"`
	Block       Block  `json:"block"`
}

// An Attribute is the schema of an attribute: whether it is required, optional, computed by the provider, or sensitive.
// Nested is the schema of its nested attributes, or nil if it has none. The zero value is an attribute that a
// configuration cannot set.
type Attribute struct {
	Nested    *NestedAttributes `json:"nested_type"`
	Required  bool              `json:"required"`
	Optional  bool              `json:"optional"`
	Computed  bool              `json:"computed"`
	Sensitive bool              `json:"sensitive"`
}

// Settable reports whether a configuration may set the attribute, because it is required or optional. In a valid
// schema, all other attributes are only computed by the provider. An optional attribute may also be computed.
func (a Attribute) Settable() bool { return a.Required || a.Optional }

// NestedAttributes is the schema of the attributes within an attribute, by name, and the nesting mode, which states
// how JSON represents the value of the attribute unless it is null: NestingSingle as an object, NestingList and
// NestingSet as a list of objects, and NestingMap as an object of objects. The zero value, without a mode, is not
// valid.
type NestedAttributes struct {
	NestingMode string               `json:"nesting_mode"`
	Attributes  map[string]Attribute `json:"attributes"`
}

// Schemas holds the schemas of the providers of a configuration, by provider address, such as
// "registry.opentofu.org/hashicorp/random". They can be tens of megabytes, so the method Resource decodes the schema of
// a resource type only when it is requested. The zero value contains no providers.
type Schemas struct {
	Providers map[string]struct {
		Resources map[string]json.RawMessage `json:"resource_schemas"`
	} `json:"provider_schemas"`
}

// DecodeSchemas decodes the output of "tofu providers schema -json". It returns nil and an error if schemaJSON is not
// exactly one valid JSON document, or if a field has another JSON type than in that output. The schemas of single
// resource types are decoded, and so checked, by Schemas.Resource. A document without schemas is not an error.
func DecodeSchemas(schemaJSON []byte) (*Schemas, error) {
	schemas := &Schemas{}
	if err := value.Decode(schemaJSON, schemas); err != nil {
		return nil, fmt.Errorf("reading the schemas of the providers: %w", err)
	}
	return schemas, nil
}

// Resource returns the schema of a type of managed resources, such as "random_password". providerAddress is the full
// address of the provider, such as "registry.opentofu.org/hashicorp/random". Resource returns nil and an error if
// OpenTofu reported no schema for the provider, if the provider has no such resource type, or if a field of the schema
// has another type than expected.
func (s *Schemas) Resource(providerAddress, resourceType string) (*Block, error) {
	provider, ok := s.Providers[providerAddress]
	if !ok {
		return nil, fmt.Errorf("OpenTofu reported no schema for the provider %s; it reported schemas for %s",
			providerAddress, diag.Names(value.Keys(s.Providers)))
	}
	encoded, ok := provider.Resources[resourceType]
	if !ok {
		return nil, fmt.Errorf("the provider %s has no resources of the type %s", providerAddress, resourceType)
	}
	var schema struct {
		Block Block `json:"block"`
	}
	if err := value.Decode(encoded, &schema); err != nil {
		return nil, fmt.Errorf("reading the schema of %s: %w", resourceType, err)
	}
	return &schema.Block, nil
}

// Has reports whether the block contains the nested block or attribute at a path. The path consists of the names of
// nested blocks, attributes and nested attributes, without indexes, such as ["timeouts" "create"]. Has panics if the
// path is empty. It returns false for keys within an attribute that has no nested attributes, such as a map.
func (b Block) Has(path []string) bool {
	if nested, ok := b.BlockTypes[path[0]]; ok {
		return len(path) == 1 || nested.Block.Has(path[1:])
	}
	return hasAttribute(b.Attributes, path)
}

// hasAttribute reports whether the attributes, by name, contain the one at a path of attribute names, of which the
// first is a name in attributes and each further one that of a nested attribute. It panics if the path is empty.
func hasAttribute(attributes map[string]Attribute, path []string) bool {
	attribute, ok := attributes[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	return attribute.Nested != nil && hasAttribute(attribute.Nested.Attributes, path[1:])
}
