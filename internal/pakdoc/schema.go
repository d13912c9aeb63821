package pakdoc

import _ "embed" // for the schemas

// ManifestSchema is the JSON Schema, draft-07, of a pak's manifest.yml.
//
//go:embed manifest.schema.json
var ManifestSchema string

// DefinitionSchema is the JSON Schema, draft-07, of a service definition.
//
//go:embed definition.schema.json
var DefinitionSchema string
