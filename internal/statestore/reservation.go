package statestore

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// reservation is a Reservation in OpenTofu's state format, version 4. All versions of OpenTofu since 1.6 write the same for the guard. The
// record is sensitive, because it comes from a variable that is. The holes are the version of OpenTofu, the serial, the lineage, the type,
// the name and the id of the guard, its input and the nonce.
const reservation = `{"version":4,"terraform_version":%s,"serial":%s,"lineage":%s,"outputs":{},"resources":[` +
	`{"mode":"managed","type":%s,"name":%s,"provider":"provider[\"terraform.io/builtin/terraform\"]","instances":[` +
	`{"schema_version":0,"attributes":{"id":%s,"input":%[7]s,"output":%[7]s,"triggers_replace":{"value":%s,"type":"string"}},` +
	`"sensitive_attributes":[[{"type":"get_attr","value":"input"},{"type":"get_attr","value":"record"}]]}]}],"check_results":null}`

// guardInput is the input of the guard: the record and the version of OpenTofu.
const guardInput = `{"value":{"record":%s,"tofu":%s},"type":["object",{"record":"string","tofu":"string"}]}`

// Reservation is the state that "apply" of the guard alone would store, in the place of an empty state or, with nil, of none.
func Reservation(empty []byte, version string, record []byte, nonce string) ([]byte, error) {
	before := revision{Lineage: NewID()}
	if len(empty) > 0 {
		if err := json.Unmarshal(empty, &before); err != nil {
			return nil, fmt.Errorf("reading state: %w", err)
		}
	}
	kind, name := SplitAddress(GuardAddress)
	serial := json.Number(strconv.FormatUint(before.Serial+1, 10))
	input := filled(guardInput, string(record), version)
	return filled(reservation, version, serial, before.Lineage, kind, name, NewID(), json.RawMessage(input), nonce), nil
}

// filled fills the holes of a text in JSON.
func filled(text string, values ...any) []byte {
	for n := range values {
		values[n], _ = json.Marshal(values[n]) // texts and numbers can be encoded
	}
	return fmt.Appendf(nil, text, values...)
}
