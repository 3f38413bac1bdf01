package attention

import (
	"strings"
	"testing"
	"time"
)

// TestPatterns_Compile compiles every pattern of the tables, since an invalid one panics only
// when it is first used.
func TestPatterns_Compile(t *testing.T) {
	for _, k := range kinds {
		k.opens()
		if k.closes != nil {
			k.closes()
		}
	}
	for _, closeTag := range closeTags {
		closeTag()
	}
}

// TestVisibleText_EndMarkAfterShortAnswer reads the end mark after an answer of at most one
// character.
func TestVisibleText_EndMarkAfterShortAnswer(t *testing.T) {
	for text, want := range map[string]string{"</s>": "", " </s>": "", "5</s>": "5", "<s></s>": "", "<s>5</s>": "5"} {
		if got := VisibleText(text); got != want {
			t.Errorf("VisibleText(%q) = %q; want %q", text, got, want)
		}
	}
}

// TestVisibleText_ManyMarksInALine checks a text for which each mark once searched the whole line
// and the whole text, which took half a minute.
func TestVisibleText_ManyMarksInALine(t *testing.T) {
	text := strings.Repeat("<s> ", 8<<10)
	start := time.Now()
	VisibleText(text)
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("%d bytes took %v", len(text), took)
	}
}
