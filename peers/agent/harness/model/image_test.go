package model_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/harness/model"
)

// TestTurn_SendsImages checks the format of each API. After an endpoint has refused images, with
// any status, the turn continues without them, with a note to the model.
func TestTurn_SendsImages(t *testing.T) {
	refusal := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, body, status) }
	}
	for name, c := range map[string]struct {
		make    func(*model.Options) *model.Harness
		refused http.HandlerFunc
		answer  string
		image   string
	}{
		"openai":      {model.OpenAI, nil, openaiOK, `{"image_url":{"url":"data:image/png;base64,UE5H"},"type":"image_url"}`},
		"anthropic":   {model.Anthropic, nil, anthropicOK, `{"source":{"data":"UE5H","media_type":"image/png","type":"base64"},"type":"image"}`},
		"blind":       {model.OpenAI, refusal(400, `{"error":{"message":"messages must be text"}}`), openaiOK, ""},
		"blind, 500":  {model.OpenAI, refusal(500, `{"error":{"message":"image input is not supported - you may need to provide the mmproj"}}`), openaiOK, ""},
		"blind, 404":  {model.OpenAI, refusal(404, `{"error":{"message":"No endpoints found that support image input"}}`), openaiOK, ""},
		"too large":   {model.Anthropic, refusal(413, `{"error":{"type":"request_too_large"}}`), anthropicOK, ""},
		"blind model": {model.Anthropic, refusal(400, `{"error":{"type":"invalid_request_error","message":"no"}}`), anthropicOK, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answers := []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.Write([]byte(c.answer))
			}}
			if c.refused != nil {
				answers = append([]http.HandlerFunc{c.refused}, answers...)
			}
			api := startAPI(t, answers...)
			h := c.make(&model.Options{BaseURL: api.URL, Client: api.Client, Key: func() (string, error) { return "k", nil }})
			outcome, err := h.Turn(t.Context(), &harness.Turn{
				ID: "t", Attempt: 1, System: "rules", Prompt: "what is this?", Images: []harness.Image{{MimeType: "image/png", Data: []byte("PNG")}},
				Attempted: func(int) error { return nil },
			}, nil)
			if err != nil || outcome.FinalText != "fine" {
				t.Fatalf("%+v, %v", outcome, err)
			}
			api.mu.Lock()
			defer api.mu.Unlock()
			raw, _ := json.Marshal(api.requests[len(api.requests)-1].Body["messages"])
			body := string(raw)
			blind := c.image == ""
			if blind != strings.Contains(body, "could not be shown to you: your model does not support images") || strings.Contains(body, "UE5H") == blind ||
				!strings.Contains(body, c.image) || !strings.Contains(body, "what is this?") {
				t.Error(body)
			}
			if want := len(answers); len(api.requests) != want {
				t.Errorf("%d requests; want %d", len(api.requests), want)
			}
		})
	}
}

const (
	openaiOK    = `{"choices":[{"message":{"role":"assistant","content":"fine"},"finish_reason":"stop"}]}`
	anthropicOK = `{"type":"message","role":"assistant","content":[{"type":"text","text":"fine"}],"stop_reason":"end_turn"}`
)
