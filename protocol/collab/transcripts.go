package collab

import "embed"

// Transcripts are the test cases of a broker, in the format of package transcript: the requests of
// peers, and the answers and notifications that a broker must send. "{{mark}}" is replaced by a text
// that is unique to the run.
//
//go:embed testdata/*.txt
var Transcripts embed.FS
