package statestore

import (
	"encoding/base64"
	"fmt"
	"strings"
)

// The words about a key that is not known, between which its id stands.
const (
	AnotherKey = "the state was encrypted with another key"
	AddKey     = "add it to state.encryption.old_keys"
)

// keyScript is what OpenTofu asks for the keys of states, in whatever shell there is, as an external key provider of protocol version 1: it reads the metadata of
// a stored state, or null, and writes the current key, for encryption, and the key that the metadata names, for decryption. The
// holes are the rules for the known ids, the current key and its id. The id from the metadata is nothing but text to compare.
const keyScript = `# Answers OpenTofu with the keys of states. It starts no process: keys must not be arguments of any.
LC_ALL=C
umask 077
fail() {
  echo "$1" >&2
  exit 1
}
foreign='reading the metadata of the state: it names no key; something else than the service adapter encrypted the state'
echo '{"magic":"OpenTofu-External-Key-Provider","version":1}'
IFS= read -r metadata
case $metadata in
null | '{"external_data":null}') decryption= ;;
'{"external_data":{"id":"'????????????????'"}}')
  id=${metadata#'{"external_data":{"id":"'}
  id=${id%%'"}}'}
  case $id in
  *[!0123456789abcdef]*) fail "$foreign" ;;
  esac
  echo "$id" >"$0` + AskedSuffix + `" || fail 'recording the key of the state'
  case $id in
%s  *) fail "` + AnotherKey + ` (id \"$id\"); ` + AddKey + `" ;;
  esac
  ;;
*) fail "$foreign" ;;
esac
echo '{"keys":{"encryption_key":"%s"'"$decryption"'},"meta":{"external_data":{"id":"%s"}}}'
`

// Script is the key script with the keys.
func (c *Encryption) Script() []byte {
	var known strings.Builder
	for _, key := range c.keys() {
		fmt.Fprintf(&known, "  %s) decryption=',\"decryption_key\":\"%s\"' ;;\n", KeyID(key), base64.StdEncoding.EncodeToString(key))
	}
	return fmt.Appendf(nil, keyScript, known.String(), base64.StdEncoding.EncodeToString(c.Key), KeyID(c.Key))
}
