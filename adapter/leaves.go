package adapter

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
)

// stringLeaves decodes an object of objects of strings and returns the one of a key. False when the text is anything else, or has
// what is unusual: it then is for the library, which takes several times as long for a large text.
func stringLeaves(key string, data []byte) (leaves map[string]string, ok bool) {
	r := &leafReader{data: data}
	commands := map[string]map[string]string{}
	r.object(func(name string) {
		_, twice := commands[name]
		r.fault = r.fault || twice
		found := map[string]string{}
		r.object(func(leaf string) {
			_, twice := found[leaf]
			r.fault = r.fault || twice
			found[leaf] = r.text()
		})
		commands[name] = found
	})
	if r.blank(); r.fault || r.at < len(data) {
		return nil, false
	}
	if leaves = commands[key]; leaves == nil {
		leaves = map[string]string{}
	}
	return leaves, true
}

// leafReader reads JSON from an index on. Once there is a fault, what it returns means nothing.
type leafReader struct {
	data  []byte
	at    int
	fault bool
}

// blank skips what may stand between the elements of JSON.
func (r *leafReader) blank() {
	for r.at < len(r.data) && strings.IndexByte(" \t\r\n", r.data[r.at]) >= 0 {
		r.at++
	}
}

// next skips blanks and reads a sign, if it is the next one.
func (r *leafReader) next(sign byte) bool {
	r.blank()
	if r.at == len(r.data) || r.data[r.at] != sign {
		return false
	}
	r.at++
	return true
}

// object reads an object, whose values are read by a function.
func (r *leafReader) object(read func(name string)) {
	if r.fault = r.fault || !r.next('{'); r.fault || r.next('}') {
		return
	}
	for {
		name := r.text()
		if r.fault = r.fault || !r.next(':'); r.fault {
			return
		}
		if read(name); r.fault || r.next('}') {
			return
		}
		if r.fault = !r.next(','); r.fault {
			return
		}
	}
}

// text reads a string.
func (r *leafReader) text() string {
	if r.fault = r.fault || !r.next('"'); r.fault {
		return ""
	}
	start := r.at
	for {
		quote := bytes.IndexByte(r.data[r.at:], '"')
		if quote < 0 {
			r.fault = true
			return ""
		}
		before := r.data[start : r.at+quote]
		r.at += quote + 1
		if backslashes := len(before) - len(bytes.TrimRight(before, "\\")); backslashes%2 == 0 {
			text, ok := unescape(before)
			r.fault = !ok
			return text
		}
	}
}

// unescape returns the text that stands inside JSON's quotes as raw. It gives up, with false, on what is no valid JSON or unusual.
func unescape(raw []byte) (string, bool) {
	end := ordinary(raw, 0)
	if end == len(raw) {
		return string(raw), true
	}
	var text strings.Builder
	text.Grow(len(raw))
	for start := 0; ; end = ordinary(raw, start) {
		text.Write(raw[start:end])
		if end == len(raw) {
			return text.String(), true
		}
		r, size := escape(raw[end:])
		if size == 0 {
			return "", false
		}
		text.WriteRune(r)
		start = end + size
	}
}

// escape returns the character that an escape at the beginning of a text stands for, and the length of the escape; 0 for none.
func escape(text []byte) (r rune, size int) {
	const short, meaning, long = `"\/bfnrt`, "\"\\/\b\f\n\r\t", 6
	if len(text) < 2 || text[0] != '\\' {
		return 0, 0
	}
	if at := strings.IndexByte(short, text[1]); at >= 0 {
		return rune(meaning[at]), 2
	}
	if text[1] != 'u' || len(text) < long {
		return 0, 0
	}
	code, err := strconv.ParseUint(string(text[2:long]), 16, 16)
	if err != nil || utf16.IsSurrogate(rune(code)) {
		return 0, 0
	}
	return rune(code), long
}
