package semantics_test

import (
	"bytes"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"
)

// An answer is an entry of testdata/answers*.yml, which extends a recorded case.
type answer struct {
	Case string
	// Row is the id of the row of docs/compatibility.md that explains why the adapter's answers differ. It is "" if
	// they do not.
	Row string
	// Bodies contains requests that the recording lacks, by the number of their step. The recorder would have rounded
	// their numbers.
	Bodies map[int]string
	// Bound is the JSON of the credentials that a bind after the recorded steps must return, for cases without a
	// recorded bind. These credentials show the variables of the provision template.
	Bound string
	// Steps contains the adapter's own answers by the number of the step. All other steps must be answered as recorded.
	Steps map[int]struct {
		// Refused is a part of the message with which the adapter rejects the request.
		Refused string
		// Credentials is the JSON of the credentials that a bind must return.
		Credentials string
	}
}

// readAnswers returns the entries of all files testdata/answers*.yml, by the ids of their cases.
func readAnswers() map[string]answer {
	files, err := filepath.Glob("testdata/answers*.yml")
	Expect(err).NotTo(HaveOccurred())
	found := map[string]answer{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		Expect(err).NotTo(HaveOccurred())
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		var list []answer
		Expect(decoder.Decode(&list)).To(Succeed(), file)
		for _, a := range list {
			Expect(found).NotTo(HaveKey(a.Case))
			Expect(a.Row == "").To(Equal(len(a.Steps) == 0), "%s: answers need the row that explains them", a.Case)
			found[a.Case] = a
		}
	}
	return found
}

// answers contains the entries of all cases. They are read while the specs are declared.
var answers map[string]answer
