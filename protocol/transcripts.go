package protocol

import "embed"

// Transcripts are the test cases of the wire protocol: text files with the frames that a client
// sends and the frames that a bus must answer. Package transcript describes the format and runs
// them.
//
//go:embed testdata/*.txt
var Transcripts embed.FS
