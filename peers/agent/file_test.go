package agent_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"hubbub/peers/agent"
	"hubbub/peers/agent/harness"
	"hubbub/peers/store/storetest"
	"hubbub/protocol"
)

// A fileServer acts as a bridge's files: it serves them by path to any client.
type fileServer struct {
	mu     sync.Mutex
	files  map[string][]byte
	asked  map[string]int
	broken int // requests that fail before one succeeds
}

func (s *fileServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[r.URL.Path]++
	if s.broken > 0 {
		s.broken--
		return nil, errors.New("no connection")
	}
	w := httptest.NewRecorder()
	if body, ok := s.files[r.URL.Path]; ok {
		w.Write(body)
	} else {
		http.Error(w, "Telegram does not give this file: it is over 20 MB, or gone", http.StatusNotFound)
	}
	return w.Result(), nil
}

func newFileServer(files map[string][]byte) *fileServer {
	return &fileServer{files: files, asked: map[string]int{}}
}

func (s *fileServer) options() *agent.Options {
	return &agent.Options{Fetch: &http.Client{Transport: s}}
}

// attached is a direct message with files.
func attached(id string, files ...protocol.Attachment) protocol.ChatMessage {
	m := dm(id, "look at this")
	m.Attachments = files
	return m
}

func inChannel(m protocol.ChatMessage) protocol.ChatMessage {
	m.Chat = post("", "").Chat
	return m
}

func photo(ref string, size int64) protocol.Attachment {
	return protocol.Attachment{Kind: "photo", Name: "photo.jpg", MimeType: "image/jpeg", Ref: "http://bridge" + ref, Size: size}
}

func document(ref, name, mime string) protocol.Attachment {
	return protocol.Attachment{Kind: "document", Name: name, MimeType: mime, Ref: "http://bridge" + ref, Size: 10}
}

var (
	jpeg = []byte("\xff\xd8\xff\xe0 a picture")
	png  = []byte("\x89PNG\r\n\x1a\n another")
)

// TestImages_AreShownToTheModel checks that images of supported types and sizes are shown in
// order and fetched once, and that the prompt explains why others are not.
func TestImages_AreShownToTheModel(t *testing.T) {
	s := newStub(nil)
	s.caps.Images = true
	tries := 0
	s.turn = func(context.Context, *harness.Turn, harness.Tools) (harness.Outcome, error) {
		if tries++; tries == 1 {
			return harness.Outcome{}, fmt.Errorf("%w: once more", harness.ErrTemporary)
		}
		return harness.Outcome{State: harness.Finished, FinalText: "nice"}, nil
	}
	files := newFileServer(map[string][]byte{"/1": jpeg, "/2": png, "/3": []byte("<html>"), "/5": append(jpeg, make([]byte, 5<<20)...)})
	withFixture(t, s, files.options(), func(t *testing.T, w *fixture) {
		w.say(attached("e1", photo("/1", 10), document("/2", "plan.png", "image/png"), photo("/3", 10), photo("/4", 6<<20), photo("/5", 1), photo("/6", 1), photo("/7", 21<<20)))
		w.sleep(20 * time.Second)
		if len(s.seen()) != 2 {
			t.Fatalf("%d turns", len(s.seen()))
		}
		for _, turn := range s.seen() {
			if len(turn.Images) != 2 || turn.Images[0].MimeType != "image/jpeg" || turn.Images[1].MimeType != "image/png" || !bytes.Equal(turn.Images[1].Data, png) {
				t.Errorf("%d images: %+v", len(turn.Images), turn.Images)
			}
			for _, line := range []string{
				`photo "photo.jpg" image/jpeg 10 bytes: shown to you as image 1`, `document "plan.png" image/png 10 bytes: shown to you as image 2`,
				`10 bytes: not shown to you: it is not JPEG, PNG, GIF or WebP`, `not shown to you: it has 6.0 MB; an image may have at most 5.0 MB`,
				`photo "photo.jpg" image/jpeg 1 bytes: not shown to you: it has 5.0 MB; an image may have at most 5.0 MB`,
				`not shown to you: Telegram does not give this file: it is over 20 MB, or gone`, `not shown to you: it has 21.0 MB; an image may have at most 5.0 MB`,
			} {
				if !strings.Contains(turn.Prompt, line) {
					t.Errorf("the prompt does not say %q:\n%s", line, turn.Prompt)
				}
			}
		}
		for path, n := range map[string]int{"/1": 1, "/2": 1, "/4": 0, "/5": 1, "/6": 1, "/7": 0} {
			if files.asked[path] != n {
				t.Errorf("%s was asked for %d times; want %d", path, files.asked[path], n)
			}
		}
		w.wantTexts("nice")
	})
}

// TestImages_AreLimitedToTen also checks the limit of bytes in a request.
func TestImages_AreLimitedToTen(t *testing.T) {
	s := newStub(answering("nice"))
	s.caps.Images = true
	files := newFileServer(map[string][]byte{"/1": jpeg, "/big": append(jpeg, make([]byte, 4<<20)...)})
	withFixture(t, s, files.options(), func(t *testing.T, w *fixture) {
		var many, big []protocol.Attachment
		for range 11 {
			many = append(many, photo("/1", 1))
		}
		for range 4 {
			big = append(big, photo("/big", 1))
		}
		w.say(attached("e1", many...))
		w.sleep(10 * time.Second)
		w.say(attached("e2", big...))
		w.sleep(10 * time.Second)
		turns := s.seen()
		if len(turns) != 2 || len(turns[0].Images) != 10 || len(turns[1].Images) != 6 { // and three of before
			t.Fatalf("%d turns", len(turns))
		}
		if p := turns[0].Prompt; strings.Count(p, "not shown to you: at most 10 images are shown at once") != 1 {
			t.Error(p)
		}
		if p := turns[1].Prompt; strings.Count(p, "not shown to you: the images of this turn exceed their total size") != 1 {
			t.Error(p)
		}
	})
}

// TestFiles_AreFetchedFromBridgesOnly checks that no address from another sender is called, none
// for a model without vision, and none before a knock is answered.
func TestFiles_AreFetchedFromBridgesOnly(t *testing.T) {
	s := newStub(answering("no"))
	files := newFileServer(map[string][]byte{"/1": jpeg})
	withFixture(t, s, files.options(), func(t *testing.T, w *fixture) {
		w.say(attached("e1", photo("/1", 1)))
		w.sleep(10 * time.Second)
		s.caps.Images = true
		other := w.bus.Join(t, "chorus:desk", "chorus:*")
		other.SendAs(t, "chorus:desk", "agent:lead", protocol.TypeChatMessage, attached("e2", photo("/1", 1), document("/1", "a.txt", "text/plain")))
		w.sleep(10 * time.Second)
		turns := s.seen()
		if len(turns) < 2 || !strings.Contains(turns[0].Prompt, "not shown to you: you do not accept images") || !strings.Contains(turns[1].Prompt, "only files of Telegram and Matrix are fetched") {
			t.Errorf("%d turns: %+v", len(turns), turns)
		}
		_, r := call(w.tools(), "chat.read_file", map[string]any{"eventId": "e2", "file": 2})
		if !r.IsError || !strings.Contains(r.Content[0].Text, "only files of Telegram and Matrix are fetched") {
			t.Errorf("%+v", r)
		}
		if len(files.asked) != 0 {
			t.Errorf("asked for %v", files.asked)
		}
	})
}

// docx is an office document with paragraphs.
func docx(paragraphs ...string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	part, _ := z.Create("word/document.xml")
	fmt.Fprint(part, `<w:document xmlns:w="x"><w:body>`)
	for _, p := range paragraphs {
		fmt.Fprintf(part, `<w:p><w:r><w:t>%s</w:t></w:r></w:p>`, p)
	}
	fmt.Fprint(part, `</w:body></w:document>`)
	z.Close()
	return b.Bytes()
}

// TestDocuments_PagesFitIntoResults checks that a model, which reads 32 KiB of a result, reads whole
// pages with the offset of the next one.
func TestDocuments_PagesFitIntoResults(t *testing.T) {
	for name, long := range map[string]string{
		"table":  strings.Repeat("<td>5 & 6</td>", 3000),
		"quotes": strings.Repeat("\"\"", 20000),
	} {
		files := newFileServer(map[string][]byte{"/long": []byte(long)})
		withFixture(t, newStub(answering("ok")), files.options(), func(t *testing.T, w *fixture) {
			w.say(attached("e1", document("/long", "long.txt", "text/plain")))
			w.sleep(5 * time.Second)
			read, offset := "", 0.0
			for {
				m, r := call(w.agent.ToolsFor("tg:42"), "chat.read_file", map[string]any{"eventId": "e1", "offset": offset})
				part, _ := m["text"].(string)
				if read += part; part == "" || len(r.Text()) > 32<<10 {
					t.Fatalf("%s: a page of %d bytes in a result of %d bytes", name, len(part), len(r.Text()))
				}
				if m["next"] == nil {
					break
				}
				offset = m["next"].(float64)
			}
			if read != long {
				t.Errorf("%s: %d bytes were read of %d", name, len(read), len(long))
			}
		})
	}
}

// TestDocuments_AreReadWithTheTool checks that documents are read with the tool that the prompt names, in
// pages, and fetched once each. A file without text is named as such, and a temporary failure is
// tried again.
func TestDocuments_AreReadWithTheTool(t *testing.T) {
	long := strings.Repeat("äöü", 4000) // 24,000 bytes
	wide := []byte{0xff, 0xfe}
	for _, u := range utf16.Encode([]rune("weit")) {
		wide = binary.LittleEndian.AppendUint16(wide, u)
	}
	files := newFileServer(map[string][]byte{
		"/long": []byte(long), "/docx": docx("one", "two"), "/wide": wide, "/pdf": []byte("%PDF-1.7 \xff\x00"), "/image": png, "/zip": []byte("PK\x03\x04 broken"),
	})
	withFixture(t, newStub(answering("ok")), files.options(), func(t *testing.T, w *fixture) {
		w.say(attached("e1", document("/long", "long.txt", "text/plain"), document("/docx", "a.docx", "x"), document("/wide", "w.txt", "text/plain"),
			document("/pdf", "a.pdf", "application/pdf"), document("/image", "a.txt", "text/plain"), document("/zip", "a.zip", "x"), document("/gone", "gone", "x")))
		w.sleep(5 * time.Second)
		if p := w.stub.seen()[0].Prompt; !strings.Contains(p, `document "a.docx" x 10 bytes: read it with chat.read_file, eventId e1, file 2`) || len(files.asked) != 0 {
			t.Errorf("%v, %s", files.asked, p)
		}
		tools := w.agent.ToolsFor("tg:42")
		read := func(file, offset int) map[string]any {
			m, r := call(tools, "chat.read_file", map[string]any{"eventId": "e1", "file": file, "offset": offset})
			if r.IsError {
				return map[string]any{"text": r.Content[0].Text}
			}
			return m
		}
		files.broken = 1
		if m := read(1, 0); m["text"] != "The file cannot be read: it could not be fetched; try to read it later." {
			t.Errorf("%v", m)
		}
		first := read(1, 0)
		rest := read(1, int(first["next"].(float64)))
		if first["text"].(string)+rest["text"].(string) != long || rest["next"] != nil || first["bytes"] != float64(24000) || first["name"] != "long.txt" || len(first["text"].(string)) > 16<<10 {
			t.Errorf("%v %v %v", first["next"], first["bytes"], rest["next"])
		}
		if read(1, 1)["text"] == "" || read(1, 24000)["text"] != "" || read(1, 99999)["text"] != "" {
			t.Error("an offset inside a character, or behind the end")
		}
		for file, want := range map[int]string{
			2: "one\ntwo\n", 3: "weit", 4: "The file cannot be read: it is a PDF, and no PDF reader is configured (--read-pdf); ask for it as text, or as a docx or odt document.",
			5: "The file cannot be read: it is an image; models that accept images see it with its message.",
			6: "The file cannot be read: it is application/zip, which cannot be read as text; ask for it as text, or as a docx or odt document.",
			7: "The file cannot be read: Telegram does not give this file: it is over 20 MB, or gone.", 8: "That event has 7 files.", -1: "That event has 7 files.",
		} {
			if got := read(file, 0)["text"]; got != want {
				t.Errorf("file %d says %q; want %q", file, got, want)
			}
		}
		read(7, 0)
		for path, n := range map[string]int{"/long": 2, "/docx": 1, "/gone": 1} { // the first of /long failed
			if files.asked[path] != n {
				t.Errorf("%s was asked for %d times", path, files.asked[path])
			}
		}
		if _, r := call(w.agent.ToolsFor("tg:43"), "chat.read_file", map[string]any{"eventId": "e1"}); !r.IsError || !strings.Contains(r.Content[0].Text, "cannot read such an event") {
			t.Errorf("from another chat: %+v", r)
		}
		gone := dm("e1", "")
		gone.Event = "delete"
		w.say(gone)
		w.sleep(time.Second)
		if _, r := call(tools, "chat.read_file", map[string]any{"eventId": "e1"}); !r.IsError || !strings.Contains(r.Content[0].Text, "deleted") {
			t.Errorf("of a deleted message: %+v", r)
		}
	})
}

// TestVoice_IsTranscribed checks that a recording is transcribed once and shown as its text, even
// to programs that read no prompt. Without a transcription, or when it fails, the prompt says so.
func TestVoice_IsTranscribed(t *testing.T) {
	voice := protocol.Attachment{Kind: "voice", Name: "voice.ogg", MimeType: "audio/ogg", Ref: "http://bridge/v", Size: 3}
	for name, c := range map[string]struct {
		transcribe func(ctx context.Context, name string, recording []byte) (string, error)
		line, part string
	}{
		"none": {nil, "you cannot hear it: no transcription is configured (--transcribe)", ""},
		"fails": {func(context.Context, string, []byte) (string, error) { return "", errors.New("exit status 1") },
			"you cannot hear it: its text could not be determined", ""},
		"works": {func(_ context.Context, name string, recording []byte) (string, error) {
			return " " + name + " says " + string(recording) + "\n", nil
		}, "its transcript: voice.ogg says ogg", "voice.ogg says ogg"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			files := newFileServer(map[string][]byte{"/v": []byte("ogg")})
			opts := files.options()
			if c.transcribe != nil {
				opts.Transcribe = func(ctx context.Context, name string, recording []byte) (string, error) {
					calls++
					return c.transcribe(ctx, name, recording)
				}
			}
			withFixture(t, newStub(answering("ok")), opts, func(t *testing.T, w *fixture) {
				m := dm("e1", "")
				m.Attachments = []protocol.Attachment{voice}
				w.say(m)
				w.sleep(5 * time.Second)
				turn := w.stub.seen()[0]
				if !strings.Contains(turn.Prompt, `voice "voice.ogg" audio/ogg 3 bytes: `+c.line) {
					t.Error(turn.Prompt)
				}
				if part := turn.Event.Content[1]; part.Text != c.part || part.Type != "file" {
					t.Errorf("%+v", part)
				}
				if m, r := call(w.tools(), "chat.read_file", map[string]any{"eventId": "e1"}); c.part != "" && (m["text"] != c.part || calls != 1) {
					t.Errorf("%+v, transcribed %d times", r, calls)
				}
				w.wantTexts("ok")
			})
		})
	}
}

// TestPDFs_AreReadByTheCommand checks that the configured command reads each PDF once, unless it fails, whatever
// the file's name and type are. It also covers PDFs that are all text.
func TestPDFs_AreReadByTheCommand(t *testing.T) {
	files := newFileServer(map[string][]byte{"/a": []byte("%PDF-1.4 plain"), "/empty": []byte("%PDF-1.4 \xff"), "/bad": []byte("%PDF-1.4 bad"), "/odd": []byte("%PDF-odd")})
	opts := files.options()
	calls := map[string]int{}
	opts.ReadPDF = func(_ context.Context, name string, pdf []byte) (string, error) {
		calls[name]++
		switch string(pdf) {
		case "%PDF-1.4 \xff":
			return " \f\n", nil
		case "%PDF-odd":
			return "o\xffdd", nil
		case "%PDF-1.4 bad":
			if calls[name] == 1 {
				return "", errors.New("exit status 1")
			}
		}
		return name + " says page one\n\f", nil
	}
	withFixture(t, newStub(answering("ok")), opts, func(t *testing.T, w *fixture) {
		w.say(attached("e1", document("/a", "a.pdf", "application/pdf"), document("/empty", "b", "x"), document("/bad", "c.txt", "text/plain"), document("/odd", "d", "x")))
		w.sleep(5 * time.Second)
		tools := w.agent.ToolsFor("tg:42")
		for _, want := range []struct {
			file  int
			text  string
			calls int
		}{
			{1, "a.pdf says page one", 1}, {1, "a.pdf says page one", 1},
			{2, "The file cannot be read: it is a PDF without text; its pages may be images.", 1},
			{2, "The file cannot be read: it is a PDF without text; its pages may be images.", 1},
			{3, "The file cannot be read: its text could not be determined.", 1}, {3, "c.txt says page one", 2}, {3, "c.txt says page one", 2},
			{4, "o\ufffddd", 1},
		} {
			m, r := call(tools, "chat.read_file", map[string]any{"eventId": "e1", "file": want.file})
			got, name := m["text"], map[int]string{1: "a.pdf", 2: "b", 3: "c.txt", 4: "d"}[want.file]
			if r.IsError {
				got = r.Content[0].Text
			}
			if got != want.text || calls[name] != want.calls {
				t.Errorf("file %d says %q after %d calls; want %q after %d", want.file, got, calls[name], want.text, want.calls)
			}
		}
	})
}

// TestFiles_AreRemovedWithTheirMessages checks that files are removed after the retention, and
// not earlier.
func TestFiles_AreRemovedWithTheirMessages(t *testing.T) {
	files := newFileServer(map[string][]byte{"/1": []byte("text")})
	opts := files.options()
	opts.Retention = 24 * time.Hour
	withFixture(t, newStub(answering("ok")), opts, func(t *testing.T, w *fixture) {
		w.say(attached("e1", document("/1", "a.txt", "text/plain")))
		w.sleep(5 * time.Second)
		kept := func() (n int) {
			if err := storetest.Scan(w.db, []any{&n}, `SELECT count(*) FROM files`); err != nil {
				t.Fatal(err)
			}
			return n
		}
		call(w.tools(), "chat.read_file", map[string]any{"eventId": "e1"})
		w.sleep(22 * time.Hour)
		if kept() != 1 {
			t.Error("forgotten before its time")
		}
		w.sleep(4 * time.Hour)
		if kept() != 0 {
			t.Error("kept for ever")
		}
	})
}

// TestImages_OfTheAnsweredMessageAreShown checks that the picture of the answered message is shown beside the
// message's own picture, and that the tool reads its document. Both are labeled.
func TestImages_OfTheAnsweredMessageAreShown(t *testing.T) {
	s := newFileServer(map[string][]byte{"/own": jpeg, "/theirs": png, "/notes": []byte("milk and bread")})
	var read string
	stub := newStub(func(_ context.Context, turn *harness.Turn, tools harness.Tools) (harness.Outcome, error) {
		if turn.Event.EventID == "e2" {
			_, r := call(tools, "chat.read_file", map[string]any{})
			read = r.Text()
		}
		return harness.Outcome{State: harness.Finished, FinalText: "seen"}, nil
	})
	stub.caps.Images = true
	withFixture(t, stub, s.options(), func(t *testing.T, w *fixture) {
		m := attached("e1", photo("/own", 10))
		m.ReplyTo = &protocol.ReplyTo{Name: "Ann", Text: "[photo]", Attachments: []protocol.Attachment{photo("/theirs", 10)}}
		w.say(m)
		w.sleep(time.Minute)
		turn := w.turnOf("e1")
		if len(turn.Images) != 2 || !bytes.Equal(turn.Images[0].Data, jpeg) || !bytes.Equal(turn.Images[1].Data, png) {
			t.Errorf("%d images", len(turn.Images))
		}
		if !strings.Contains(turn.Prompt, "\nof the quoted message: photo \"photo.jpg\" image/jpeg 10 bytes: shown to you as image 2\n") {
			t.Errorf("the prompt says\n%s", turn.Prompt)
		}
		if words := turn.Event.Text(); words != "look at this\n> In reply to Ann:\n> [photo]" {
			t.Errorf("a program reads %q", words)
		}
		asks := dm("e2", "what does it say?")
		asks.ReplyTo = &protocol.ReplyTo{Name: "Ann", Text: "[document]", Attachments: []protocol.Attachment{document("/notes", "notes.txt", "text/plain")}}
		w.say(asks)
		w.sleep(time.Minute)
		if !strings.Contains(read, "milk and bread") {
			t.Errorf("the tool reads %q", read)
		}
	})
}

// TestEarlierImages_AreShownAgain checks that models with vision see the images of the last
// messages of the same chat, the newest first.
func TestEarlierImages_AreShownAgain(t *testing.T) {
	gone := attached("p1")
	gone.Event, gone.Attachments = protocol.EventDelete, nil
	filler := func(n int) (list []protocol.ChatMessage) {
		for i := range n {
			list = append(list, dm(fmt.Sprint("f", i), fmt.Sprint("and ", i)))
		}
		return list
	}
	elsewhere := attached("p1", photo("/1", 10))
	elsewhere.Chat = &protocol.Chat{ID: "42", Kind: "channel", ThreadID: "T9"}
	quoting := dm("q", "what colour is the boat?")
	quoting.ReplyTo = &protocol.ReplyTo{SourceID: "p1", Text: "x", Attachments: []protocol.Attachment{photo("/1", 10)}}
	for name, c := range map[string]struct {
		before []protocol.ChatMessage
		asked  protocol.ChatMessage
		blind  bool
		want   int
	}{
		"a photo":             {[]protocol.ChatMessage{attached("p1", photo("/1", 10))}, dm("q", "what colour is the boat?"), false, 1},
		"a picture as a file": {[]protocol.ChatMessage{attached("p1", document("/2", "plan.png", "image/png"))}, dm("q", "and the roof?"), false, 1},
		"four of an album":    {[]protocol.ChatMessage{attached("p1", photo("/1", 10), photo("/1", 10), photo("/1", 10), photo("/1", 10))}, dm("q", "which is best?"), false, 3},
		"forwarded":           {[]protocol.ChatMessage{{SourceID: "p1", Event: "message", Text: "> Forwarded from Mia:", Forwarded: "Mia", Chat: quoting.Chat, Author: quoting.Author, Attachments: []protocol.Attachment{photo("/1", 10)}}}, dm("q", "what is it?"), false, 1},
		"after thanks":        {[]protocol.ChatMessage{attached("p1", photo("/1", 10)), dm("t", "thanks")}, dm("q", "and its colour?"), false, 1},
		"another person's":    {[]protocol.ChatMessage{inChannel(by(attached("p1", photo("/1", 10)), "78", "human"))}, post("q", "@lead what is on it?"), false, 1},
		"of two people":       {[]protocol.ChatMessage{inChannel(attached("p1", photo("/1", 10))), inChannel(by(attached("p2", photo("/1", 10)), "78", "human"))}, post("q", "@lead which is older?"), false, 2},
		"a film":              {[]protocol.ChatMessage{attached("p1", document("/3", "a.mp4", "video/mp4"))}, dm("q", "and?"), false, 0},
		"a while ago":         {append([]protocol.ChatMessage{attached("p1", photo("/1", 10))}, filler(3)...), dm("q", "and the first?"), false, 1},
		"long ago":            {append([]protocol.ChatMessage{attached("p1", photo("/1", 10))}, filler(12)...), dm("q", "and the first?"), false, 0},
		"deleted":             {[]protocol.ChatMessage{attached("p1", photo("/1", 10)), gone}, dm("q", "and?"), false, 0},
		"a text file":         {[]protocol.ChatMessage{attached("p1", document("/3", "a.txt", "text/plain"))}, dm("q", "and?"), false, 0},
		"answered":            {[]protocol.ChatMessage{attached("p1", photo("/1", 10))}, quoting, false, 1},
		"of another thread":   {[]protocol.ChatMessage{elsewhere}, inThread(post("q", "@lead and the boat?"), "T1"), false, 0},
		"to a blind model":    {[]protocol.ChatMessage{attached("p1", photo("/1", 10))}, dm("q", "and?"), true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStub(answering("nice"))
			s.caps.Images = !c.blind
			files := newFileServer(map[string][]byte{"/1": jpeg, "/2": png, "/3": []byte("text")})
			withFixture(t, s, files.options(), func(t *testing.T, w *fixture) {
				for _, m := range append(c.before, c.asked) {
					w.say(m)
					w.sleep(5 * time.Second)
				}
				turn := w.turnOf("q")
				if shown := strings.Count(turn.Prompt, "shown to you as image"); len(turn.Images) != c.want || shown != c.want {
					t.Errorf("%d images, of which the prompt names %d:\n%s", len(turn.Images), shown, turn.Prompt)
				}
			})
		})
	}
}
