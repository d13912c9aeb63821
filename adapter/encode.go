package adapter

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/pivotal-cf/on-demand-services-sdk/serviceadapter"
)

// product is what a command writes to standard output.
type product struct {
	head []byte
	// manifest stands behind the head as it stands inside the quotes of JSON. It may be large, so it is encoded as it is written.
	manifest string
	tail     []byte
}

// write writes the product.
func (p product) write(out io.Writer) error {
	const buffer = 64 << 10 // bytes, what a pipe takes at once
	buffered := bufio.NewWriterSize(out, buffer)
	_, _ = buffered.Write(p.head) // Flush returns the first error
	writeText(buffered, p.manifest)
	_, _ = buffered.Write(p.tail)
	return buffered.Flush()
}

// encode renders a result as JSON, as the SDK does: one document and a newline.
func encode(result any) (product, error) {
	const head = `{"manifest":"`
	if made, ok := result.(*serviceadapter.MarshalledGenerateManifest); ok {
		others := *made
		others.Manifest = ""
		text, err := encodeAny(&others)
		if rest, ok := bytes.CutPrefix(text, []byte(head)); ok {
			return product{head: []byte(head), manifest: made.Manifest, tail: rest}, err
		}
	}
	text, err := encodeAny(result)
	return product{head: text}, err
}

func encodeAny(result any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(result); err != nil {
		return nil, fmt.Errorf("encoding the result: %w", err)
	}
	return out.Bytes(), nil
}

// writeText writes a text as it stands inside the quotes of JSON. The writer keeps the error.
func writeText(out *bufio.Writer, text string) {
	const short, meaning = "\"\\\n\t\r\b\f", `"\ntrbf`
	data := []byte(text) // which copies nothing, because nothing is changed
	for start := 0; start < len(text); {
		end := ordinary(data, start)
		_, _ = out.WriteString(text[start:end])
		if end == len(text) {
			return
		}
		r, size := utf8.DecodeRuneInString(text[end:])
		if at := strings.IndexRune(short, r); at >= 0 {
			_ = out.WriteByte('\\')
			_ = out.WriteByte(meaning[at])
		} else {
			_, _ = fmt.Fprintf(out, `\u%04x`, r)
		}
		start = end + size
	}
}

// ordinary returns the index of the first byte from start on that does not stand in JSON's quotes as it is, or that is no valid
// UTF-8; the length of the text when there is none. The two characters that are line breaks in JavaScript are such, too.
func ordinary(text []byte, start int) int {
	const ones, high = 0x0101010101010101, 0x8080808080808080
	for i := start; i < len(text); {
		// Eight bytes at once: the highest bit of a byte is set where it is below a blank, a quote, a backslash or beyond ASCII.
		if i+8 <= len(text) {
			x := binary.LittleEndian.Uint64(text[i:])
			quotes, backslashes := x^ones*'"', x^ones*'\\'
			if (((x-ones*' ')|(quotes-ones)|(backslashes-ones))&^x|x)&high == 0 {
				i += 8
				continue
			}
		}
		c := text[i]
		if c < ' ' || c == '"' || c == '\\' {
			return i
		}
		if c < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' {
			return i
		}
		i += size
	}
	return len(text)
}
