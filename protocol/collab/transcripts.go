package collab

import "embed"

// Transcripts are the cases of a broker, in the form of package transcript: what peers ask,
// and what a broker must answer and tell. "{{mark}}" stands for what makes names and ids
// those of one run.
//
//go:embed testdata/*.txt
var Transcripts embed.FS
