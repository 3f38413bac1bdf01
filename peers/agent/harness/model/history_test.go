package model_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"

	"pgregory.net/rapid"
)

func TestHistory_SurvivesRestartsWithinLimits(t *testing.T) {
	each(t, func(r rig) {
		path := filepath.Join(r.TempDir(), "history.db")
		var past *model.History
		api, _ := r.start(nil, r.say("one"), r.say("two"), r.say("three"), r.say("four"), r.say("five"))
		ask := func(prompt, conversation string) (words []string) {
			var err error
			if past, err = model.OpenHistory(path, 10); err != nil {
				r.Fatal(err)
			}
			defer past.Close()
			h := r.new(&model.Options{BaseURL: api.URL, Client: api.Client, Key: func() (string, error) { return secret, nil }, History: past, HistoryTurns: 2})
			tn := turn(prompt)
			tn.Event.Conversation.ID = conversation
			if _, err := h.Turn(r.Context(), tn, &harnesstest.Tools{}); err != nil {
				r.Fatal(err)
			}
			for _, s := range r.last(api) {
				words = append(words, s.Words())
			}
			return words
		}
		ask("first", "C1")
		ask("second", "C1")
		ask("third", "C1")
		if got, want := ask("fourth", "C1"), []string{"second", "two", "third", "three", "fourth"}; !slices.Equal(got, want) {
			r.Errorf("the model saw %v, want %v", got, want)
		}
		if other := ask("elsewhere", "C2"); len(other) != 1 {
			r.Errorf("another conversation saw %v", other)
		}
	})
}

// TestHistory_RemembersASilentTurn checks that two prompts follow each other in the history after a
// silent turn.
func TestHistory_RemembersASilentTurn(t *testing.T) {
	each(t, func(r rig) {
		history := r.history(1)
		api, h := r.start(func(o *model.Options) { o.History = history }, r.said(said{}), r.say("second"))
		for _, prompt := range []string{"one", "two"} {
			if _, err := h.Turn(r.Context(), turn(prompt), &harnesstest.Tools{}); err != nil {
				r.Fatal(err)
			}
		}
		if shown := r.last(api); len(shown) != 2 || shown[0].Words() != "one" || shown[1].Words() != "two" {
			r.Errorf("after a silent turn the model saw %v", shown)
		}
	})
}

func TestHistory_ForgetsAFailedTurn(t *testing.T) {
	each(t, func(r rig) {
		history := r.history(1)
		_, h := r.start(func(o *model.Options) { o.History = history }, Status(404, "no such model"))
		_, err := h.Turn(r.Context(), turn("x"), nil)
		document, loading := history.Load(r.Context(), "C1\x1f")
		if !errors.Is(err, harness.ErrPermanent) || document != nil || loading != nil {
			r.Errorf("%v, remembered %s, %v", err, document, loading)
		}
	})
}

func TestHistory_RemovesTheOldest(t *testing.T) {
	h, err := model.OpenHistory(filepath.Join(t.TempDir(), "history.db"), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, c := range []string{"a", "b", "a", "c"} {
		if err := h.Save(t.Context(), c, []byte(c+c)); err != nil {
			t.Fatal(err)
		}
	}
	for c, want := range map[string]string{"a": "aa", "b": "", "c": "cc"} {
		if got, err := h.Load(t.Context(), c); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", c, got, err)
		}
	}
}

// TestHistory_IsBounded checks that the history stays small however long the conversation is, and
// that calls keep their results.
func TestHistory_IsBounded(t *testing.T) {
	const most = 6000
	r := rigs[0]
	r.T = t
	history := r.history(1)
	conversation := 0
	rapid.Check(t, func(t *rapid.T) {
		conversation++ // each begins without a past
		last := turn("last")
		last.Event.Conversation.ID = strings.Repeat("C", conversation)
		long := &harnesstest.Tools{Answer: func(context.Context, harnesstest.Call) (harness.Result, bool) {
			return harness.Result{Content: []harness.Content{{Type: "text", Text: strings.Repeat("é", 40_000)}}}, true
		}}
		for range rapid.IntRange(1, 8).Draw(t, "turns") {
			answers := []string{strings.Repeat("y", rapid.IntRange(0, 3000).Draw(t, "reply"))}
			withTool := rapid.Bool().Draw(t, "with a tool")
			_, h := r.start(func(o *model.Options) { o.History, o.HistoryTurns, o.HistoryBytes = history, 4, most }, r.say(answers...))
			if withTool {
				_, h = r.start(func(o *model.Options) { o.History, o.HistoryTurns, o.HistoryBytes = history, 4, most }, r.call("c", "chat_read_thread", "{}"), r.say(answers...))
			}
			tn := *last
			tn.Prompt = strings.Repeat("x", rapid.IntRange(0, 3000).Draw(t, "prompt"))
			if _, err := h.Turn(context.Background(), &tn, long); err != nil {
				t.Fatal(err)
			}
			if document, err := history.Load(context.Background(), last.ConversationKey()); err != nil || len(document) > most || len(document) == 0 {
				t.Fatalf("%d bytes are kept, %v", len(document), err)
			}
		}
		api, h := r.start(func(o *model.Options) { o.History = history }, r.say(""))
		if _, err := h.Turn(context.Background(), last, long); err != nil {
			t.Fatal(err)
		}
		open := 0
		for _, s := range r.last(api) {
			open += len(s.Calls)
			if s.Role == "tool" {
				open--
			}
			if open < 0 || s.Role == "user" && open != 0 {
				t.Fatalf("a call without a result, or the other way round, in %v", r.last(api))
			}
		}
	})
}
