package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/peers/agent/harness/model"
)

// TestCut_IsShortenedOrMarked checks that an answer that the token limit cut is never lost. The
// model is notified and shortens it, or its text for people is the answer, marked as cut.
func TestCut_IsShortenedOrMarked(t *testing.T) {
	send := func(arguments string) said {
		return said{Calls: []modelCall{{ID: "a", Name: "chat_send_message", Arguments: arguments}}, Stop: stopCut}
	}
	for name, c := range map[string]struct {
		answers  []said
		text     string
		cut      bool
		requests int
		sent     string
	}{
		"a text":                {[]said{{Text: []string{"Half of"}, Stop: stopCut}}, "Half of", true, 1, ""},
		"a message, shortened":  {[]said{send(`{"text":"A long`), {Calls: []modelCall{{ID: "b", Name: "chat_send_message", Arguments: `{"text":"Short."}`}}}, {Text: []string{""}}}, "", false, 3, "Short."},
		"a message, as text":    {[]said{send(`{"text":"A long`), {Text: []string{"Short."}}}, "Short.", false, 2, ""},
		"always":                {[]said{send(`{"inReplyTo":"e1", "text": "Zwei Wörter \u00e`), send(`{"text":"Zwei`), send(`{"te`)}, "Zwei Wörter", true, 3, ""},
		"a thought":             {[]said{{Text: []string{"<think>so long"}, Stop: stopCut}, {Text: []string{"It is 4."}}}, "It is 4.", false, 2, ""},
		"a call as text":        {[]said{{Text: []string{"```json\n{\"name\":\"chat_send_message\",\"arguments\":{\"te"}, Stop: stopCut}, {Text: []string{"Sent."}}}, "Sent.", false, 2, ""},
		"a call of its tools":   {[]said{{Text: []string{`{"name": "probe", "arguments": {"x": "lo`}, Stop: stopCut}, {Text: []string{"Found."}}}, "Found.", false, 2, ""},
		"by the model's length": {[]said{{Text: []string{"Half of"}, Stop: "model_length"}}, "Half of", true, 1, ""},
		"by Gemini's words":     {[]said{{Text: []string{"Half of"}, Stop: "MAX_TOKENS"}}, "Half of", true, 1, ""},
		"by the context window": {[]said{{Text: []string{"Half of"}, Stop: "model_context_window_exceeded"}}, "Half of", true, 1, ""},
		"in another's words":    {[]said{{Calls: send(`{"text":"A lo`).Calls, Stop: "max_output_tokens"}, {Text: []string{"Short."}}}, "Short.", false, 2, ""},
		"by no known end":       {[]said{{Text: []string{"Whole."}, Stop: "eos"}}, "Whole.", false, 1, ""},
		"another tool":          {[]said{{Text: []string{"Let me see."}, Calls: []modelCall{{ID: "a", Name: "chat_read_thread", Arguments: `{"te`}}, Stop: stopCut}, {Text: []string{"Seen."}}}, "Seen.", false, 2, ""},
		"an escape":             {[]said{send(`{"text":"a \"quoted\" \`), send(`{`), send(`{`)}, `a "quoted"`, true, 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			each(t, func(r rig) {
				var answers []http.HandlerFunc
				for _, s := range c.answers {
					answers = append(answers, r.said(s))
				}
				api, h := r.start(func(o *model.Options) { o.MaxTokens = 77 }, answers...)
				tools := &harnesstest.Tools{Names: []string{"chat.send_message", "chat.read_thread", "probe"}}
				out, err := h.Turn(r.Context(), turn("x"), tools)
				requests := api.Requests()
				if err != nil || out.FinalText != c.text || out.Truncated != c.cut || len(requests) != c.requests {
					r.Fatalf("%q, cut %v, %v, after %d requests", out.FinalText, out.Truncated, err, len(requests))
				}
				sent := ""
				for _, call := range tools.Calls() {
					sent, _ = call.Arguments["text"].(string)
				}
				raw, _ := json.Marshal(requests[len(requests)-1].Body) //nolint:errcheck // it was read as JSON
				if sent != c.sent || (c.requests > 1) != strings.Contains(string(raw), "limit of 77 tokens") {
					r.Errorf("%q was sent, after %s", sent, raw)
				}
			})
		})
	}
	each(t, func(r rig) { // the endpoint calls the end of a cut call an ordinary one
		cut := said{Calls: []modelCall{{ID: "a", Name: "chat_send_message", Arguments: `{"text":"A long sto`}}}
		api, h := r.start(func(o *model.Options) { o.MaxTokens = outputTokens }, r.said(cut), r.said(cut), r.said(cut))
		out, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{Names: []string{"chat.send_message"}})
		if err != nil || out.FinalText != "A long sto" || !out.Truncated || len(api.Requests()) != 3 {
			r.Errorf("%q, cut %v, %v, after %d requests", out.FinalText, out.Truncated, err, len(api.Requests()))
		}
	})
	each(t, func(r rig) {
		_, h := r.start(nil, r.said(said{Text: []string{"<think>so long"}, Stop: stopCut}))
		if _, err := h.Turn(r.Context(), turn("x"), &harnesstest.Tools{}); !errors.Is(err, harness.ErrBudget) {
			r.Errorf("thoughts alone: %v", err)
		}
	})
}

// TestResult_ShowsItsImages checks that a model with vision gets the images, and that any other
// gets a note that they exist.
func TestResult_ShowsItsImages(t *testing.T) {
	for _, blind := range []bool{false, true} {
		each(t, func(r rig) {
			answers := []http.HandlerFunc{r.call("a", "chat_read_thread", "{}")}
			if blind {
				answers = append(answers, func(w http.ResponseWriter, _ *http.Request) {
					http.Error(w, `{"error":{"message":"image input is not supported"}}`, http.StatusBadRequest)
				})
			}
			api, h := r.start(nil, append(answers, r.say("A boat."))...)
			tools := &harnesstest.Tools{Answer: func(_ context.Context, _ harnesstest.Call) (harness.Result, bool) {
				return harness.Result{Content: []harness.Content{{Type: "text", Text: "[an image, image/png]", Image: &harness.Image{MimeType: "image/png", Data: []byte("PNG")}}}}, true
			}}
			out, err := h.Turn(r.Context(), turn("x"), tools)
			requests := api.Requests()
			raw, _ := json.Marshal(requests[len(requests)-1].Body) //nolint:errcheck // it was read as JSON
			if err != nil || out.FinalText != "A boat." || strings.Contains(string(raw), "UE5H") == blind ||
				blind != strings.Contains(string(raw), "could not be shown to you") {
				r.Errorf("%q, %v, after %s", out.FinalText, err, raw)
			}
		})
	}
}
