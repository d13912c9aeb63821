package tofu

import (
	"slices"
	"strings"

	"service-adapter/internal/opentofu"
	"service-adapter/internal/statestore"
)

// newStore returns the store of a backend, nil where OpenTofu has to be asked. OpenTofu's environment may say more about pg than the
// configuration does.
func newStore(b Backend, files *statestore.Files, env map[string]string) statestore.Store {
	if files != nil {
		return files
	}
	if b.Type != pgType {
		return nil
	}
	for name := range env {
		if strings.HasPrefix(name, "PG") {
			return nil
		}
	}
	var config statestore.PostgresConfig
	texts := map[string]*string{"conn_str": &config.ConnStr, "schema_name": &config.Schema, "table_name": &config.Table}
	others := []string{"index_name", "skip_schema_creation", "skip_table_creation", "skip_index_creation"}
	for name, v := range b.Config {
		text, _ := v.(string)
		switch place := texts[name]; {
		case place != nil && text != "":
			*place = text
		case place != nil || !slices.Contains(others, name):
			return nil
		}
	}
	store, err := statestore.Postgres(config)
	if err != nil {
		return nil
	}
	return store
}

// knows tells whether states of this OpenTofu are read and written without it. What a version that nobody tested stores, and how it
// locks it, only that version knows.
func (e *Engine) knows(i opentofu.Installation) bool { return !e.options.OnlyOpenTofu && i.Tested() }
