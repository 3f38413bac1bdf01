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

// pngOf returns the content of an image with a name.
func pngOf(name string) []byte { return []byte("\x89PNG\r\n\x1a\n a chart" + name) }

// An imageFixture is a chat with an agent whose model sees images.
type imageFixture struct {
	*fixture
	model *imageModel
	user  models.User
	chat  models.Chat
}

func newImageFixture(t *testing.T, agents ...string) *imageFixture {
	model := &imageModel{}
	web := httptest.NewServer(model)
	t.Cleanup(web.Close)
	s := newFixture(t, append([]string{"--harness=openai", "--model=seer", "--base-url=" + web.URL + "/v1"}, agents...)...)
	user := s.api.User("Will")
	return &imageFixture{s, model, user, s.api.DM(user)}
}

// say posts a message and returns the answer.
func (f *imageFixture) say(m models.Message) string {
	f.t.Helper()
	n := len(f.api.Texts(f.chat.ID))
	m.Chat, m.From = f.chat, &f.user
	f.api.Post(m)
	return f.awaitTexts(f.chat, n+1)[n]
}

// mustShow checks that the model had one turn with a text, and got these images in it.
func (f *imageFixture) mustShow(text string, images ...[]byte) {
	f.t.Helper()
	prompts, bodies := f.model.turnsWith(text)
	if len(prompts) != 1 {
		f.t.Fatalf("%d turns with %q", len(prompts), text)
	}
	for _, image := range images {
		if !strings.Contains(bodies[0], base64.StdEncoding.EncodeToString(image)) {
			f.t.Errorf("the model did not get the bytes of an image of %q", text)
		}
	}
}

// TestAttachments_ReachTheModel sends photos, files and a voice message to a model that sees
// images. Each file is fetched once.
func TestAttachments_ReachTheModel(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	f := newImageFixture(t, "--transcribe="+script(t, "transcribe", `echo "heard $(cat "$1")"`),
		"--read-pdf="+script(t, "pdftotext", `echo "$# page: $(cat)"`)+" -q")
	jpeg, png := []byte("\xff\xd8\xff\xe0 a cat"), pngOf("")
	picture := f.api.AddFile("a.jpg", "image/jpeg", jpeg)
	if got := f.say(models.Message{Caption: "what is this", Photo: []models.PhotoSize{{FileID: picture, FileUniqueID: "a", FileSize: len(jpeg)}}}); got != "I see an image" {
		t.Errorf("the answer to a picture is %q", got)
	}
	f.mustShow("what is this", jpeg)
	other := f.api.AddFile("b.png", "image/png", png)
	n := len(f.api.Texts(f.chat.ID))
	f.api.Album(f.chat, f.user, "both of them", picture, other)
	if got := f.awaitTexts(f.chat, n+1)[n]; got != "I see an image an image an image" { // the previous picture is shown again
		t.Errorf("the answer to an album is %q", got)
	}
	f.mustShow("both of them", jpeg, png)
	for _, c := range []struct{ name, mime, content, want string }{
		{"notes.txt", "text/plain", "milk and bread", "milk and bread"},
		{"plan.pdf", "application/pdf", "%PDF-1.4 raw", "1 page: %PDF-1.4 raw"},
	} {
		id := f.api.AddFile(c.name, c.mime, []byte(c.content))
		got := f.say(models.Message{Caption: "read this " + c.name, Document: &models.Document{FileID: id, FileUniqueID: id, FileName: c.name, MimeType: c.mime, FileSize: int64(len(c.content))}})
		if !strings.Contains(got, c.want) {
			t.Errorf("the answer to %s is %q", c.name, got)
		}
	}
	voice := f.api.AddFile("v.oga", "audio/ogg", []byte("la la"))
	f.say(models.Message{Voice: &models.Voice{FileID: voice, FileUniqueID: "v", MimeType: "audio/ogg", FileSize: 5}})
	f.mustShow("its transcript: heard la la")
	if got := len(f.api.Calls("getFile")); got != 5 {
		t.Errorf("%d files were fetched; want each of 5 once", got)
	}
}

// TestAttachments_ArriveOnceDespiteKills lets an agent send files while the agent or the bridge is
// killed.
func TestAttachments_ArriveOnceDespiteKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it starts programs")
	}
	workspace := t.TempDir()
	for _, name := range []string{"chart.png", "plan.png"} {
		if err := os.WriteFile(filepath.Join(workspace, name), pngOf(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f := newImageFixture(t, "--workspace="+workspace)
	f.say(models.Message{Text: "anything else first"})
	shown := func(name string) (n int) {
		for _, m := range f.api.Messages(f.chat.ID) {
			if len(m.Photo) > 0 && m.From.IsBot && slices.Equal(f.api.Content(m.Photo[0].FileID), pngOf(name)) && m.Caption == "as you asked" {
				n++
			}
		}
		return n
	}
	for _, c := range []struct {
		killed, file string
		leg          hop
	}{{"agent", "chart.png", hopAccept}, {"tg", "plan.png", hopAcknowledge}} {
		h := f.tap.hold(c.leg, protocol.TypeTGReply, c.file) // the reply with this file name
		f.api.Say(f.chat, f.user, "send me <"+c.file+">")
		n := len(f.api.Texts(f.chat.ID))
		f.awaitHeld(h, "the reply with "+c.file)
		f.await("the picture", func() bool { return shown(c.file) > 0 })
		f.kill(c.killed, f.chat)
		h.outcome <- c.killed == "agent"
		if c.killed == "tg" {
			f.start("tg")
		}
		f.awaitTexts(f.chat, n+1)
		f.awaitSettled(f.chat)
		f.say(models.Message{Text: "anything else after " + c.file})
		if got := shown(c.file); got != 1 {
			t.Errorf("%s was shown %d times after the kill of %s", c.file, got, c.killed)
		}
	}
}

const transcribeKey = "HUBBUB_TRANSCRIBE_KEY=sk-voice"

// An imageHarness is the endpoint of a model of Anthropic's API, which answers with its input,
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
