package a2a

import (
	"testing"

	"hubbub/peers/agent/harness"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
)

func TestExchange_LimitsReportedReplacements(t *testing.T) {
	texts := 0
	x := &exchange{h: &Harness{}, turn: &harness.Turn{}}
	x.h.Attach(harness.Host{Progress: func(p harness.Progress) {
		if p.Message != "" {
			texts++
		}
	}})
	update := func(id sdk.ArtifactID, words string, more bool) {
		a := &sdk.Artifact{ID: id, Parts: sdk.ContentParts{sdk.NewTextPart(words)}}
		x.handleEvent(&sdk.TaskArtifactUpdateEvent{Artifact: a, Append: more})
	}
	for range maxReplaced + 10 {
		update("1", "a", false)
	}
	update("2", "b", false)
	update("1", "c", true)
	if want := 1 + maxReplaced + 2; texts != want || x.answer() != "ac\n\nb" {
		t.Errorf("%d texts are reported, want %d; the answer is %q", texts, want, x.answer())
	}
	update("\ufffd", "d", false) // of an unpaired surrogate
	update("\ufffd", "e", false) // perhaps of another
	if want := "ac\n\nb\n\nd\n\ne"; x.answer() != want {
		t.Errorf("the answer is %q, want %q", x.answer(), want)
	}
}
