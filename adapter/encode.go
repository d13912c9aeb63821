package adapter

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// encode renders a result as the SDK does: one JSON document and a newline.
func encode(result any) ([]byte, error) {
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(result); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return out.Bytes(), nil
}
