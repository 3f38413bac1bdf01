package attention

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
)

//go:embed testdata/*.json
var vectorFiles embed.FS

// A Vector is one test of the attention rules: an event and the expected decision. Each list in
// Want names all conforming answers; the first is that of Decide. testdata/README.md documents
// the format.
type Vector struct {
	File   string `json:"-"` // the file that contains it
	Name   string `json:"name"`
	Seed   int    `json:"seed"` // the number of the sentence that it checks, in testdata/sentences.md
	Self   Self   `json:"self"`
	Facts  Facts  `json:"facts"`
	Config Config `json:"config"`
	Event  Event  `json:"event"`
	Want   Want   `json:"want"`
}

// Title names the vector and the sentence that it checks.
func (v *Vector) Title() string { return fmt.Sprintf("%s (sentence %d)", v.Name, v.Seed) }

// Want lists the conforming decisions for a vector, in each draft.
type Want struct {
	Directedness []Directedness `json:"directedness"`
	Policy       []Policy       `json:"policy"`    // draft 2026-06-02
	Injection    []Mode         `json:"injection"` // all drafts, except as in Draft0811
	Context      string         `json:"context,omitempty"`
	Priority     Priority       `json:"priority,omitempty"` // empty = not checked
	Reason       string         `json:"reason,omitempty"`   // our name; others may differ
	Action       Action         `json:"action,omitempty"`
	// set exactly if a knock is due; "*" is any value that holds no user text
	Knock     *Knock `json:"knock,omitempty"`
	Draft0624 struct {
		AddressedToMe []bool   `json:"addressedToMe"`
		Policy        []Policy `json:"policy"`
	} `json:"2026-06-24"`
	// Draft0811 lists the differences in draft 2026-08-11. Nil means that it equals 2026-06-24.
	Draft0811 *struct {
		AddressedToMe []bool   `json:"addressedToMe"`
		Policy        []Policy `json:"policy"`
		Injection     []Mode   `json:"injection"`
	} `json:"2026-08-11,omitempty"`
}

// Vectors returns the published test vectors, in the order of their files.
func Vectors() ([]Vector, error) {
	names, err := vectorFiles.ReadDir("testdata")
	if err != nil {
		return nil, err
	}
	var vectors []Vector
	for _, entry := range names {
		file, err := readVectors(entry.Name())
		if err != nil {
			return nil, err
		}
		for i := range file.Vectors {
			file.Vectors[i].File = entry.Name()
		}
		vectors = append(vectors, file.Vectors...)
	}
	return vectors, nil
}

// A vectorFile is the content of a file of tests: either of decisions, or of obligations.
type vectorFile struct {
	Vectors   []Vector   `json:"vectors"`
	Timelines []Timeline `json:"timelines"`
}

func readVectors(name string) (file vectorFile, err error) {
	raw, err := vectorFiles.ReadFile(path.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(raw, &file)
	}
	if err != nil {
		err = fmt.Errorf("reading the tests of %s: %w", name, err)
	}
	return file, err
}
