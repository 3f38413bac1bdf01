package files_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/agent/files"
	"hubbub/peers/agent/mailbox"
	"hubbub/protocol"

	"github.com/rs/zerolog"
)

// png begins as every PNG does.
const png = "\x89PNG\r\n\x1a\n"

// bridge is a bridge that serves files, with a cache that fetches from it.
type bridge struct {
	*files.Cache
	url     string
	asked   map[string]int
	status  int
	content string
}

func newBridge(t *testing.T) *bridge {
	t.Helper()
	db, err := mailbox.Open(filepath.Join(t.TempDir(), "agent.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	b := &bridge{asked: map[string]int{}, status: http.StatusOK}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.asked[r.URL.Path]++
		w.WriteHeader(b.status)
		_, _ = io.WriteString(w, b.content)
	}))
	t.Cleanup(web.Close)
	log := zerolog.Nop()
	b.url = web.URL
	b.Cache = &files.Cache{Mailbox: mailbox.New(db, nil, mailbox.Options{}), Client: web.Client(), Log: &log}
	return b
}

func (b *bridge) file(name string) *protocol.Attachment {
	return &protocol.Attachment{Kind: "document", Name: name, Ref: b.url + "/" + name}
}

// TestCache_FetchesAFileOnce covers files that the bridge returned or permanently refused. A
// temporary failure is tried again.
func TestCache_FetchesAFileOnce(t *testing.T) {
	b := newBridge(t)
	for i, c := range []struct {
		status        int
		content, mime string
		problem       string
		asked         int // after two tries
	}{
		{200, "hello", "text/plain", "", 1},
		{200, png, "image/png", "", 1},
		{404, " it is over 20 MB,\nor gone ", "", "it is over 20 MB, or gone", 1},
		{404, "", "", "it no longer exists", 1},
		{404, strings.Repeat("x", 301), "", strings.Repeat("x", 300), 1},
		{502, "no", "", "it could not be fetched; try to read it later", 2},
		{200, strings.Repeat("x", 20<<20), "text/plain", "", 1},
		{200, strings.Repeat("x", 20<<20+1), "", "it has more than 20.0 MB; such files are not fetched", 1},
	} {
		b.status, b.content = c.status, c.content
		name := fmt.Sprint(i)
		for range 2 {
			f, err := b.Get(t.Context(), "tg:5", b.file(name))
			if c.problem != "" {
				if err == nil || files.Problem(err) != c.problem {
					t.Errorf("%d: %v; want %q", i, err, c.problem)
				}
			} else if err != nil || f.Mime != c.mime || string(f.Body) != c.content {
				t.Errorf("%d: %v", i, err)
			}
		}
		if got := b.asked["/"+name]; got != c.asked {
			t.Errorf("%d: asked for %d times, want %d", i, got, c.asked)
		}
	}
}

// TestCache_SkipsFilesItCannotUse also checks the note that the model receives about such a file.
func TestCache_SkipsFilesItCannotUse(t *testing.T) {
	b := newBridge(t)
	b.content = "hello"
	sized := func(n int64) *protocol.Attachment {
		a := b.file("a")
		a.Size = n
		return a
	}
	for _, c := range []struct {
		chat protocol.Topic
		a    *protocol.Attachment
		want string
	}{
		{"tg:5", sized(20<<20 + 1), "it has 20.0 MB; files over 20.0 MB are not fetched"},
		{"tg:5", &protocol.Attachment{}, "its bridge serves no files"},
		{"chorus:5", sized(1), "only files of Telegram and Matrix are fetched"},
		{"tg:5", &protocol.Attachment{Ref: "http://a b/"}, "its reference is not a URL"},
		{"tg:5", sized(20 << 20), ""},
	} {
		if _, err := b.Get(t.Context(), c.chat, c.a); (err == nil) != (c.want == "") || err != nil && files.Problem(err) != c.want {
			t.Errorf("%+v: %v; want %q", c.a, err, c.want)
		}
	}
	if len(b.asked) != 1 || b.asked["/a"] != 1 {
		t.Errorf("asked for %v", b.asked)
	}
	b.Client = nil
	if _, err := b.Get(t.Context(), "tg:5", sized(1)); err == nil || files.Problem(err) != "its bridge serves no files" {
		t.Errorf("without a client: %v", err)
	}
}

// TestPrompt_DescribesEachFile checks that the prompt says how a file is shown, or why it is not.
func TestPrompt_DescribesEachFile(t *testing.T) {
	b := newBridge(t)
	var shown files.Attachments
	line := func(a *protocol.Attachment, sees bool) string {
		e := &mailbox.Entry{EventID: "e1", Chat: "tg:5", Content: protocol.ChatMessage{Attachments: []protocol.Attachment{*a}}}
		said := b.Describe(t.Context(), e, 1, sees, &shown)
		_, why, _ := strings.Cut(said, ": ")
		return why
	}
	image := func(name string) *protocol.Attachment {
		a := b.file(name)
		a.Kind = "photo"
		return a
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	b.content = png
	check("of another kind", line(&protocol.Attachment{Kind: "video"}, true), "you cannot see or hear files of this kind")
	b.Transcribe = func(context.Context, string, []byte) (string, error) { return "hello", nil }
	round := b.file("round")
	round.Kind = "video_note"
	check("a round video", line(round, true), "read its transcript with chat.read_file, eventId e1, file 1")
	if said, err := b.Read(t.Context(), "tg:5", round); said != "hello" || err != nil {
		t.Errorf("a round video says %q, %v", said, err)
	}
	b.Transcribe = nil
	check("a round video that nothing transcribes", line(round, true), "you cannot see or hear files of this kind")
	check("a document", line(b.file("d"), true), "read it with chat.read_file, eventId e1, file 1")
	check("a model that does not see", line(image("1"), false), "not shown to you: you do not accept images")
	check("an image", line(image("1"), true), "shown to you as image 1")
	document := b.file("2")
	document.MimeType = "image/png"
	check("an image as a document", line(document, true), "shown to you as image 2")
	large := image("3")
	large.Size = 5<<20 + 1
	check("a large image", line(large, true), "not shown to you: it has 5.0 MB; an image may have at most 5.0 MB")
	b.content = png + strings.Repeat("x", 5<<20)
	check("one that is larger than was said", line(image("4"), true), "not shown to you: it has 5.0 MB; an image may have at most 5.0 MB")
	b.content = "words"
	check("no image", line(image("5"), true), "not shown to you: it is not JPEG, PNG, GIF or WebP")
	b.status = 404
	check("one that is gone", line(image("6"), true), "not shown to you: words")
	b.status, b.content = 200, png+strings.Repeat("x", 5<<20-len(png))
	shown = files.Attachments{}
	for i := range 3 {
		check("as large as may be", line(image(fmt.Sprint("l", i)), true), fmt.Sprint("shown to you as image ", i+1))
	}
	check("too large together", line(image("l3"), true), "not shown to you: the images of this turn exceed their total size")
	b.content = png
	shown = files.Attachments{}
	for i := range 10 {
		check("one of ten", line(image(fmt.Sprint("t", i)), true), fmt.Sprint("shown to you as image ", i+1))
	}
	check("one of eleven", line(image("t10"), true), "not shown to you: at most 10 images are shown at once")
	if len(shown.Images) != 10 || shown.Images[0].MimeType != "image/png" || string(shown.Images[0].Data) != png {
		t.Errorf("%d images are shown", len(shown.Images))
	}
}

// TestCache_TranscribesAVoiceMessageOnce also covers a message without speech, which the prompt
// mentions.
func TestCache_TranscribesAVoiceMessageOnce(t *testing.T) {
	b := newBridge(t)
	b.content = "ogg"
	voice := func(name string) *protocol.Attachment {
		return &protocol.Attachment{Kind: "voice", Ref: b.url + "/" + name}
	}
	line := func(name string) string {
		e := &mailbox.Entry{Chat: "tg:5", Content: protocol.ChatMessage{Attachments: []protocol.Attachment{*voice(name)}}}
		said := b.Describe(t.Context(), e, 1, true, &files.Attachments{})
		_, why, _ := strings.Cut(said, ": ")
		return why
	}
	if got := line("1"); got != "you cannot hear it: no transcription is configured (--transcribe)" {
		t.Error(got)
	}
	said, asked := "", 0
	var failed error
	b.Transcribe = func(_ context.Context, name string, content []byte) (string, error) {
		asked++
		if name != "voice.ogg" || string(content) != "ogg" {
			t.Errorf("%s: %q", name, content)
		}
		return said, failed
	}
	for i, c := range []struct {
		said  string
		err   error
		want  string
		asked int // for two lines
	}{
		{" la la\n", nil, "its transcript: la la", 1},
		{" ", nil, "its transcript: (nothing)", 1},
		{"", errors.New("no model"), "you cannot hear it: its text could not be determined", 2},
		{strings.Repeat("x", 8<<10), nil, "its transcript: " + strings.Repeat("x", 8<<10), 1},
		{strings.Repeat("x", 8<<10+1), nil, "its transcript: " + strings.Repeat("x", 8<<10) + " ... (the rest with chat.read_file)", 1},
	} {
		said, failed, asked = c.said, c.err, 0
		for range 2 {
			if got := line(fmt.Sprint("v", i)); got != c.want {
				t.Errorf("%d: %.100q", i, got)
			}
		}
		if asked != c.asked {
			t.Errorf("%d: transcribed %d times, want %d", i, asked, c.asked)
		}
	}
	if words, err := b.Read(t.Context(), "tg:5", voice("v4")); err != nil || len(words) != 8<<10+1 {
		t.Errorf("the whole has %d bytes, %v", len(words), err)
	}
	b.status = 404
	if got := line("gone"); got != "you cannot hear it: ogg" {
		t.Error(got)
	}
}

// TestRead_ReturnsTheTextOfAFile also checks what is said about a file without text.
func TestRead_ReturnsTheTextOfAFile(t *testing.T) {
	b := newBridge(t)
	read := func(name, content string) (string, string) {
		b.content = content
		words, err := b.Read(t.Context(), "tg:5", b.file(name))
		if err != nil {
			return words, files.Problem(err)
		}
		return words, ""
	}
	for name, c := range map[string]struct{ content, words, problem string }{
		"text":  {"hello", "hello", ""},
		"image": {png, "", "it is an image; models that accept images see it with its message"},
		"bytes": {"\x00\x01\x02", "", "it is application/octet-stream, which cannot be read as text; ask for it as text, or as a docx or odt document"},
		"pdf":   {"%PDF-1.7", "", "it is a PDF, and no PDF reader is configured (--read-pdf); ask for it as text, or as a docx or odt document"},
	} {
		if words, problem := read(name, c.content); words != c.words || problem != c.problem {
			t.Errorf("%s: %q, %q", name, words, problem)
		}
	}
	for name, c := range map[string]struct {
		says           string
		words, problem string
	}{"pages": {"page one", "page one", ""}, "pictures": {" \f", "", "it is a PDF without text; its pages may be images"}} {
		asked := 0
		b.ReadPDF = func(context.Context, string, []byte) (string, error) { asked++; return c.says, nil }
		for range 2 {
			if words, problem := read(name, "%PDF-1.7"); words != c.words || problem != c.problem {
				t.Errorf("%s: %q, %q", name, words, problem)
			}
		}
		if asked != 1 {
			t.Errorf("%s were read %d times", name, asked)
		}
	}
	b.status = 404
	if _, problem := read("gone", "gone"); problem != "gone" {
		t.Errorf("gone: %q", problem)
	}
}

// TestRead_OfficeDocuments checks that the text of each part is read, with one line per
// paragraph.
func TestRead_OfficeDocuments(t *testing.T) {
	archive := func(parts ...string) []byte {
		var b bytes.Buffer
		w := zip.NewWriter(&b)
		for i := 0; i < len(parts); i += 2 {
			part, err := w.Create(parts[i])
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(part, parts[i+1])
		}
		w.Close()
		return b.Bytes()
	}
	for what, c := range map[string]struct {
		body []byte
		want string
	}{
		"docx":  {archive("word/styles.xml", "<p>no</p>", "word/document.xml", "<d><p>a<tab/>b</p><h>c</h></d>"), "a\tb\nc\n"},
		"odt":   {archive("content.xml", "<p>a</p>", "meta.xml", "<p>no</p>"), "a\n"},
		"pptx":  {archive("ppt/slides/slide1.xml", "<p>a</p>", "ppt/slides/slide2.xml", "<p>b</p>", "ppt/slides/slide1.png", "<p>no</p>", "ppt/slide9.xml", "<p>no</p>"), "a\nb\n"},
		"empty": {archive("word/document.xml", "<p></p>"), "\n"},
		"docx with a deletion": {archive("word/document.xml", "<p><r><t>Price: </t></r><del><r><delText>100</delText></r></del>"+
			"<ins><r><t>200</t></r></ins></p>"), "Price: 200\n"},
		"docx with a move": {archive("word/document.xml", "<p><moveFrom><t>a</t></moveFrom><t>b</t><moveTo><t>a</t></moveTo></p>"),
			"ba\n"},
		"docx with line breaks": {archive("word/document.xml", "<p><t>Main St 5</t><br/><t>12345</t><cr/><t>Berlin</t></p>"),
			"Main St 5\n12345\nBerlin\n"},
		"docx with fields": {archive("word/document.xml", "<p><instrText>PAGE</instrText><t>7</t>"+
			"<del><delInstrText>DATE</delInstrText></del></p>"), "7\n"},
		"docx with a text box": {archive("word/document.xml", "<p><AlternateContent><Choice><p>a</p></Choice>"+
			"<Fallback><p>a</p></Fallback></AlternateContent></p>"), "a\n\n"},
		"odt with a deletion": {archive("content.xml", "<tracked-changes><p>old</p></tracked-changes><p>a<line-break/>b</p>"),
			"a\nb\n"},
		"pptx with a line break": {archive("ppt/slides/slide1.xml", "<p>a<br/>b</p>"), "a\nb\n"},
	} {
		if got, err := files.Text(c.body); err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %q", what, got, err, c.want)
		}
	}
	for what, body := range map[string][]byte{
		"another archive": archive("a.txt", "words"), "broken": archive("word/document.xml", "<p>a"), "nothing": archive("content.xml", "<d/>"),
	} {
		if got, err := files.Text(body); err == nil {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got, err := files.Text(archive("content.xml", strings.Repeat("<p>"+strings.Repeat("x", 1<<10)+"</p>", 5<<10))); err != nil || len(got) < 4<<20 || len(got) > 4<<20+1<<11 {
		t.Errorf("of a large one %d bytes are read, %v", len(got), err)
	}
}

// TestTranscribeEndpoint_FollowsItsSettings checks that it is called with its key and at no other
// address.
func TestTranscribeEndpoint_FollowsItsSettings(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
			return
		}
		_, given := r.Header["Authorization"]
		fmt.Fprintf(w, `{"text":"%v"}`, given)
	}))
	defer server.Close()
	secret := func(s string, err error) func() (string, error) { return func() (string, error) { return s, err } }
	if words, err := files.Endpoint(server.URL, "m", secret("", nil))(t.Context(), "a", nil); err != nil || words != "false" {
		t.Errorf("without a key: %q, %v", words, err)
	}
	if _, err := files.Endpoint(server.URL, "m", secret("", errors.New("no key")))(t.Context(), "a", nil); err == nil || err.Error() != "no key" || asked != 1 {
		t.Errorf("a key that cannot be read: %v, asked %d times", err, asked)
	}
	if _, err := files.Endpoint(server.URL+"/moved", "m", secret("k", nil))(t.Context(), "a", nil); err == nil || !strings.Contains(err.Error(), "answered 307") || asked != 2 {
		t.Errorf("elsewhere: %v, asked %d times", err, asked)
	}
	for _, nowhere := range []string{"http://a b/", "http://127.0.0.1:1/"} {
		if _, err := files.Endpoint(nowhere, "m", secret("k", nil))(t.Context(), "a", nil); err == nil {
			t.Errorf("%s answers", nowhere)
		}
	}
}
