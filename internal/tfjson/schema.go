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

// A Block is the schema of a resource or of a nested block.
type Block struct {
	Attributes map[string]Attribute   `json:"attributes"`
	BlockTypes map[string]NestedBlock `json:"block_types"`
}

// A NestedBlock is the schema of one type of nested blocks.
type NestedBlock struct {
	NestingMode string `json:"nesting_mode"`
	Block       Block  `json:"block"`
}

// An Attribute is the schema of an attribute. Nested is nil if the attribute has no nested attributes.
type Attribute struct {
	Nested    *NestedAttributes `json:"nested_type"`
	Required  bool              `json:"required"`
	Optional  bool              `json:"optional"`
	Computed  bool              `json:"computed"`
	Sensitive bool              `json:"sensitive"`
}

// Settable reports whether a configuration may set the attribute. All other attributes are computed by the provider.
func (a Attribute) Settable() bool { return a.Required || a.Optional }

// NestedAttributes is the schema of the attributes within an attribute.
type NestedAttributes struct {
	NestingMode string               `json:"nesting_mode"`
	Attributes  map[string]Attribute `json:"attributes"`
}

// Schemas holds the schemas of the providers of a configuration, by provider address. They can be tens of megabytes, so
// the method Resource decodes the schema of a resource type only when it is requested.
type Schemas struct {
	Providers map[string]struct {
		Resources map[string]json.RawMessage `json:"resource_schemas"`
	} `json:"provider_schemas"`
}

// DecodeSchemas decodes the output of "tofu providers schema -json". It returns an error if schemaJSON is not valid
// JSON or a field has another type. The schemas of single resource types are decoded, and so checked, by
// Schemas.Resource.
func DecodeSchemas(schemaJSON []byte) (*Schemas, error) {
	schemas := &Schemas{}
	if err := value.Decode(schemaJSON, schemas); err != nil {
		return nil, fmt.Errorf("reading the schemas of the providers: %w", err)
	}
	return schemas, nil
}

// Resource returns the schema of a type of managed resources. It returns an error if OpenTofu reported no schema for
// the provider, if the provider has no such resource type, or if the schema cannot be decoded.
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
// nested blocks, attributes and nested attributes, without indexes, and must not be empty.
func (b Block) Has(path []string) bool {
	if nested, ok := b.BlockTypes[path[0]]; ok {
		return len(path) == 1 || nested.Block.Has(path[1:])
	}
	return hasAttribute(b.Attributes, path)
}

// hasAttribute reports whether the attributes contain the one at a path of attribute names. The path must not be empty.
func hasAttribute(attributes map[string]Attribute, path []string) bool {
	attribute, ok := attributes[path[0]]
	if !ok || len(path) == 1 {
		return ok
	}
	return attribute.Nested != nil && hasAttribute(attribute.Nested.Attributes, path[1:])
}
