package cmd_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"hubbub/peers/agent/harness/harnesstest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// An imageModel is the endpoint of a model that sees images. On request it reads the file of an
// event or sends a file, and answers with the result of the tool. To any other prompt it answers
// with the number of images that it got.
type imageModel struct {
	mu      sync.Mutex
	prompts []string // of all turns
	bodies  []string // the first request of each turn
}

// A part is one part of a message to a model.
type part struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

func (s *imageModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var body struct {
		Messages []struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
		Tools []struct {
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		} `json:"tools"`
	}
	if err != nil || json.Unmarshal(raw, &body) != nil || len(body.Messages) == 0 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	last := body.Messages[len(body.Messages)-1]
	answer := map[string]any{"role": "assistant"}
	if last.Role == "tool" {
		answer["content"] = "the tool said: " + string(last.Content)
	} else {
		prompt, images := readParts(last.Content)
		s.mu.Lock()
		s.prompts, s.bodies = append(s.prompts, prompt), append(s.bodies, string(raw))
		s.mu.Unlock()
		tool, arguments := "", `{}`
		switch name, sends := requestedFile(prompt); {
		case sends:
			tool, arguments = "send_file", `{"path":"`+name+`","caption":"as you asked"}`
		case strings.Contains(prompt, "read this"):
			tool = "read_file"
		}
		answer["content"] = "I see " + strings.Repeat("an image ", images)
		for _, t := range body.Tools {
			if tool != "" && strings.HasSuffix(t.Function.Name, tool) {
				answer["content"] = nil
				answer["tool_calls"] = []any{map[string]any{"id": "call", "type": "function", "function": map[string]any{"name": t.Function.Name, "arguments": arguments}}}
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"choices": []any{map[string]any{"message": answer, "finish_reason": "stop"}}}) // the agent may be killed
}

// readParts returns the text of a content and the number of its images.
func readParts(raw json.RawMessage) (text string, images int) {
	if json.Unmarshal(raw, &text) == nil {
		return text, 0
	}
	var parts []part
	_ = json.Unmarshal(raw, &parts) // none on an error
	for _, p := range parts {
		text += p.Text
		if p.Type == "image_url" {
			images++
		}
	}
	return text, images
}

// requestedFile returns the file that the message in a prompt asks for.
func requestedFile(prompt string) (name string, asked bool) {
	at := strings.LastIndex(prompt, "send me <")
	if at < strings.LastIndex(prompt, "anything else") || at < 0 {
		return "", false
	}
	name, _, asked = strings.Cut(prompt[at+len("send me <"):], ">")
	return name, asked
}

// turnsWith returns the prompts that contain a text, and their requests.
func (s *imageModel) turnsWith(text string) (prompts, bodies []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, p := range s.prompts {
		if strings.Contains(p, text) {
			prompts, bodies = append(prompts, p), append(bodies, s.bodies[i])
		}
	}
	return prompts, bodies
}

// script writes an executable script.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	return path
}

// TestAttachments sends photos, files and other attachments through bridge, bus and agent to a
// model that sees. Each file is fetched once. What the agent sends arrives once, whichever
// program is killed meanwhile.
func TestAttachments(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	model := &imageModel{}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	workspace := t.TempDir()
	png := []byte("\x89PNG\r\n\x1a\n a chart")
	for _, name := range []string{"chart.png", "plan.png"} {
		if err := os.WriteFile(filepath.Join(workspace, name), append(png, name...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := newFixture(t, "--harness=openai", "--model=seer", "--base-url="+web.URL+"/v1", "--workspace="+workspace,
		"--transcribe="+script(t, "transcribe", `echo "heard $(cat "$1")"`), "--read-pdf="+script(t, "pdftotext", `echo "$# page: $(cat)"`)+" -q")
	user := s.api.User("Will")
	chat := s.api.DM(user)
	say := func(m models.Message) { // waits for the answer
		n := len(s.api.Texts(chat.ID))
		m.Chat, m.From = chat, &user
		s.api.Post(m)
		s.awaitTexts(chat, n+1)
	}
	last := func() string { texts := s.api.Texts(chat.ID); return texts[len(texts)-1] }
	saysOnce := func(what string, shown ...[]byte) string {
		t.Helper()
		prompts, bodies := model.turnsWith(what)
		if len(prompts) != 1 {
			t.Fatalf("%d turns with %q", len(prompts), what)
		}
		for _, image := range shown {
			if !strings.Contains(bodies[0], base64.StdEncoding.EncodeToString(image)) {
				t.Errorf("the model did not get the bytes of an image of %q", what)
			}
		}
		return prompts[0]
	}

	jpeg := []byte("\xff\xd8\xff\xe0 a cat")
	picture := s.api.AddFile("a.jpg", "image/jpeg", jpeg)
	say(models.Message{Caption: "what is this", Photo: []models.PhotoSize{{FileID: picture, FileUniqueID: "a", FileSize: len(jpeg)}}})
	if saysOnce("what is this", jpeg); last() != "I see an image" {
		t.Errorf("of a picture it said %q", last())
	}
	other := s.api.AddFile("b.png", "image/png", png)
	n := len(s.api.Texts(chat.ID))
	s.api.Album(chat, user, "both of them", picture, other)
	s.awaitTexts(chat, n+1)
	// The picture before is shown again.
	if saysOnce("both of them", jpeg, png); last() != "I see an image an image an image" {
		t.Errorf("of an album it said %q", last())
	}
	for _, c := range []struct{ name, mime, content, want string }{
		{"notes.txt", "text/plain", "milk and bread", "milk and bread"},
		{"plan.pdf", "application/pdf", "%PDF-1.4 raw", "1 page: %PDF-1.4 raw"},
	} {
		id := s.api.AddFile(c.name, c.mime, []byte(c.content))
		say(models.Message{Caption: "read this " + c.name, Document: &models.Document{FileID: id, FileUniqueID: id, FileName: c.name, MimeType: c.mime, FileSize: int64(len(c.content))}})
		if !strings.Contains(last(), c.want) {
			t.Errorf("of %s it said %q", c.name, last())
		}
	}
	voice := s.api.AddFile("v.oga", "audio/ogg", []byte("la la"))
	say(models.Message{Voice: &models.Voice{FileID: voice, FileUniqueID: "v", MimeType: "audio/ogg", FileSize: 5}})
	saysOnce("its transcript: heard la la")
	if got := len(s.api.Calls("getFile")); got != 5 {
		t.Errorf("%d files were fetched; want each of 5 once", got)
	}

	photos := func(name string) (n int) {
		for _, m := range s.api.Messages(chat.ID) {
			if len(m.Photo) > 0 && m.From.IsBot && slices.Equal(s.api.Content(m.Photo[0].FileID), append(png, name...)) && m.Caption == "as you asked" {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		killed, file string
		leg          hop
	}{{"agent", "chart.png", hopAccept}, {"tg", "plan.png", hopAcknowledge}} {
		h := s.tap.hold(c.leg, protocol.TypeTGReply, c.file) // the reply with this file name
		s.api.Say(chat, user, "send me <"+c.file+">")
		n := len(s.api.Texts(chat.ID))
		s.await("the reply with "+c.file, func() bool {
			select {
			case <-h.came:
				return true
			default:
				return false
			}
		})
		s.await("the picture", func() bool { return photos(c.file) > 0 })
		s.kill(c.killed, chat)
		h.outcome <- c.killed == "agent"
		if c.killed == "tg" {
			s.start("tg")
		}
		s.awaitTexts(chat, n+1)
		s.awaitSettled(chat)
		say(models.Message{Text: "anything else after " + c.file})
		if got := photos(c.file); got != 1 {
			t.Errorf("%s was shown %d times after the kill of %s", c.file, got, c.killed)
		}
	}
}

const transcribeKey = "HUBBUB_TRANSCRIBE_KEY=sk-voice"

// An imageHarness is the endpoint of a model of Anthropic's API, which answers with what it got,
// and of a transcriber.
type imageHarness struct{ t *testing.T }

func (e imageHarness) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/audio/transcriptions") {
		file, head, err := r.FormFile("file")
		if err != nil || r.Header.Get("Authorization") != "Bearer sk-voice" || r.FormValue("model") != "whisper-1" || head.Filename != "voice.ogg" {
			e.t.Errorf("the transcription was asked for by %q with %v and %+v, %v", r.Header.Get("Authorization"), r.Form, head, err)
			return
		}
		raw, _ := io.ReadAll(file)                                                       // a failure gives other text
		_ = json.NewEncoder(w).Encode(map[string]string{"text": "heard " + string(raw)}) // the agent may be gone
		return
	}
	var q struct {
		Messages []struct{ Content json.RawMessage }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, "no request", http.StatusBadRequest)
		return
	}
	var blocks []struct {
		Type, Text string
		Source     struct {
			MediaType string `json:"media_type"`
			Data      string
		}
	}
	last := q.Messages[len(q.Messages)-1].Content
	said := "shown"
	_ = json.Unmarshal(last, &blocks) // otherwise it is a string
	for _, b := range blocks {
		if b.Type == "image" {
			said += " " + b.Source.MediaType + " " + b.Source.Data
		}
	}
	if _, words, ok := strings.Cut(string(last), "its transcript: "); ok {
		said = words[:len("heard la la")]
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"content": []any{map[string]any{"type": "text", "text": said}}, "stop_reason": "end_turn"}) // the agent may be gone
}

// TestAttachments_ReachOtherHarnesses checks that a picture reaches a model of Anthropic's API
// and a program behind ACP, and that an endpoint with a key transcribes a voice message.
func TestAttachments_ReachOtherHarnesses(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	web := httptest.NewServer(imageHarness{t})
	t.Cleanup(web.Close)
	s := newFixture(t)
	s.startAgent("seer", "--harness=anthropic", "--model=m", "--base-url="+web.URL, "--transcribe="+web.URL+"/v1/audio/transcriptions")
	s.startAgent("program", "--harness=acp", "--harness-command=env "+harnesstest.ACPRoleEnv+"=seeing "+os.Args[0])
	jpeg := []byte("\xff\xd8\xff\xe0 a cat")
	picture := s.api.AddFile("a.jpg", "image/jpeg", jpeg)
	voice := s.api.AddFile("v.oga", "audio/ogg", []byte("la la"))
	shown := "image/jpeg " + base64.StdEncoding.EncodeToString(jpeg)
	for agent, messages := range map[string]map[string]models.Message{
		"seer": {
			"shown " + shown: {Caption: "what is this", Photo: []models.PhotoSize{{FileID: picture, FileUniqueID: "a", FileSize: len(jpeg)}}},
			"heard la la":    {Voice: &models.Voice{FileID: voice, FileUniqueID: "v", MimeType: "audio/ogg", FileSize: 5}},
		},
		"program": {
			"images: " + shown: {Caption: "images please", Photo: []models.PhotoSize{{FileID: picture, FileUniqueID: "a", FileSize: len(jpeg)}}},
		},
	} {
		room, will, address := s.groupOf(agent)
		for want, m := range messages {
			n := len(s.api.Texts(room.ID))
			m.Chat, m.From, m.Caption = room, &will, m.Caption+address
			s.api.Post(m)
			if got := s.awaitTexts(room, n+1); got[n] != want {
				t.Errorf("%s said %q; want %q", agent, got[n], want)
			}
		}
	}
}
