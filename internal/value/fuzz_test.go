package value_test

import (
	"reflect"
	"testing"

	"service-adapter/internal/value"
)

func FuzzDecodeJSON(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `{"a":[1,5.0,1e6,-0,2.5,"x",true,{}]}`, `9007199254740993.0`, `18446744073709551616`,
		`1e400`, `-1e-400`, `[[[[]]]]`,
		`{"a":1} {}`, "\"\xff\\ud800\"", `0.1e1000000000`, `1E+2`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		decoded, err := value.DecodeJSON(data)
		if err != nil {
			return
		}
		if again := value.Normalise(decoded); !reflect.DeepEqual(again, decoded) {
			t.Errorf("%#v becomes %#v", decoded, again)
		}
		value.Walk(decoded, func(path string, leaf any) bool {
			switch leaf.(type) {
			case nil, bool, string, int64, uint64, float64:
			default:
				t.Errorf("%T at %q is no value", leaf, path)
			}
			return true
		})
		value.Depth(decoded)
		if value.CheckNumbers(decoded) != nil {
			return
		}
		again, err := value.DecodeJSON(value.MustJSON(decoded))
		if err != nil || !reflect.DeepEqual(again, decoded) {
			t.Errorf("%#v comes back as %#v, %v", decoded, again, err)
		}
	})
}
