package protocol

import "embed"

// Transcripts are the wire cases: text files that say what a client sends and
// what a bus must answer. Package transcript describes their form and runs them.
//
//go:embed testdata/*.txt
var Transcripts embed.FS
