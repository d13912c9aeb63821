package adapter

import "bytes"

// Encode returns a result as encode and write make it, and as the library does.
func Encode(result any) (text, library []byte, failed error) {
	made, failed := encode(result)
	if failed != nil {
		return nil, nil, failed
	}
	var out bytes.Buffer
	if failed = made.write(&out); failed != nil {
		return nil, nil, failed
	}
	library, failed = encodeAny(result)
	return out.Bytes(), library, failed
}

// StringLeaves shows stringLeaves to the tests.
func StringLeaves(key string, data []byte) (map[string]string, bool) { return stringLeaves(key, data) }
