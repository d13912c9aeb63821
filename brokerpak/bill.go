package brokerpak

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
)

// BillName is the path of the bill of materials in a built pak. It has the format CycloneDX (JSON).
const BillName = "bom.cdx.json"

// maxBill is the maximum size in bytes of a bill of materials. That of a pak with OpenTofu and ten providers for two
// platforms has about 5 MB.
const maxBill = 64 << 20

// Bill returns the unchanged content of the pak's bill of materials, the file bom.cdx.json in CycloneDX (JSON). The
// content is not checked. The result is nil, without an error, if the pak does not have the file, for example because
// it is the source of a pak or an unpacked build, or because an earlier version of this program built it. Bill returns
// an error if the file cannot be opened or read, or is larger than 64 MB.
func (p *Pak) Bill() ([]byte, error) {
	file, err := p.files.Open(BillName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // opened for reading, so closing it cannot lose data
	text, err := io.ReadAll(io.LimitReader(file, maxBill+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", p.Display(BillName), err)
	}
	if len(text) > maxBill {
		return nil, fmt.Errorf("%s is larger than %d MB", p.Display(BillName), maxBill>>20)
	}
	return text, nil
}
