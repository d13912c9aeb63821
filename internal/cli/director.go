package cli

import (
	"fmt"
	"os"

	"service-adapter/adapter"
	"service-adapter/internal/director"
)

// ReadDirector reads from a YAML file how to reach a Director. The file must not be readable for everybody. Errors do not show what it holds.
func ReadDirector(path string) (*director.Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the Director: %w", err)
	}
	if mode := info.Mode().Perm(); mode&0o007 != 0 {
		return nil, fmt.Errorf("%s holds a secret and everybody may use it (mode %04o): make it 0600", path, mode)
	}
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, fmt.Errorf("reading how to reach the Director: %w", err)
	}
	config := &director.Config{}
	return config, adapter.DecodeStrict(path, "", string(text), config)
}
