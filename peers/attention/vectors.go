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
	File   string `json:"-"` // the file that it stands in
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
		raw, err := vectorFiles.ReadFile(path.Join("testdata", entry.Name()))
		if err != nil {
			return nil, err
		}
		var file struct {
			Vectors []Vector `json:"vectors"`
		}
		if err := json.Unmarshal(raw, &file); err != nil {
			return nil, fmt.Errorf("reading the vectors of %s: %w", entry.Name(), err)
		}
		for i := range file.Vectors {
			file.Vectors[i].File = entry.Name()
		}
		vectors = append(vectors, file.Vectors...)
	}
	return vectors, nil
}
