package backend

import (
	"strings"

	"service-adapter/internal/value"
)

// identities contains, for each type of backend, the settings that identify the location of a state in the storage,
// with OpenTofu's default values.
var identities = map[string]map[string]string{ //nolint:gochecknoglobals // a constant table
	PostgresType: {"schema_name": "terraform_remote_state", "table_name": "states"},
	S3Type:       {"bucket": "", "key": "", "workspace_key_prefix": "env:"},
	gcsType:      {"bucket": "", gcsPrefix: ""},
	"azurerm":    {"container_name": "", "key": ""},
	"oss":        {"bucket": "", "prefix": "env:", "key": "terraform.tfstate"},
	"cos":        {"bucket": "", "prefix": "", "key": "terraform.tfstate"},
}

// The backend gcs. OpenTofu ignores slashes at both ends of its prefix.
const (
	gcsType   = "gcs"
	gcsPrefix = "prefix"
)

// Identity returns the settings that identify the location of the states in the storage, by OpenTofu's names and as
// texts, with OpenTofu's defaults for absent ones and for null. For example, those of pg are schema_name and
// table_name, and those of s3 are bucket, key and workspace_key_prefix. Slashes at both ends of the prefix of gcs are
// removed, because OpenTofu ignores them. Two backends of one type that reach the same storage have the same states if
// their identities are equal. Hosts and credentials are not part of the identity. The result is empty, not nil, for
// local and for types that this package does not know.
func (b Backend) Identity() map[string]string {
	settings := map[string]string{}
	for key, standard := range identities[b.Type] {
		settings[key] = standard
		if item := b.Config[key]; item != nil {
			settings[key] = value.Text(item)
		}
		if b.Type == gcsType && key == gcsPrefix {
			settings[key] = strings.Trim(settings[key], "/")
		}
	}
	return settings
}
