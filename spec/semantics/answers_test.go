package semantics_test

import (
	"bytes"
	"os"
	"path/filepath"

	. "github.com/onsi/gomega"
	"gopkg.in/yaml.v3"
)

// answer is what testdata/answers*.yml adds to a recorded case.
type answer struct {
	Case string
	// Row is the row of docs/compatibility.md that says why the adapter's answers differ.
	Row string
	// Bodies are requests that the recording left out, because its decoder would have rounded the numbers in them.
	Bodies map[int]string
	// Bound is the JSON of the credentials that a bind after the recorded steps answers, where no bind was recorded:
	// they show the variables of the provision template.
	Bound string
	// Steps are the adapter's own answers, by the number of the step. All other steps are answered as they were
	// recorded.
	Steps map[int]struct {
		// Refused is a part of what the adapter says when it refuses the request.
		Refused string
		// Credentials is the JSON of what a bind answers.
		Credentials string
	}
}

// readAnswers returns the answers of every file of answers in testdata, by case.
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

// answers are those of every case. They are read while the specs are declared.
var answers map[string]answer
