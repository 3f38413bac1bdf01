package files_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hubbub/peers/agent/files"
)

// TestACommandTranscribes: it gets the recording as a file of its kind and no secret of the agent,
// and leaves nothing behind; what it says when it fails is in the error.
func TestACommandTranscribes(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	t.Setenv("HUBBUB_TOKEN", "top-secret")
	t.Setenv("MODEL_KEY", "key-secret")
	script := func(body string) []string { return []string{"/bin/sh", "-c", body, "whisper", "--quiet"} }
	words, err := files.Command(script(`echo "$1 ${2##*.} $(cat "$2") $HUBBUB_TOKEN$MODEL_KEY"`), []string{"MODEL_KEY"})(t.Context(), "../../voice.ogg", []byte("la la"))
	if err != nil || words != "--quiet ogg la la \n" {
		t.Errorf("%q, %v", words, err)
	}
	_, err = files.Command(script(`echo no model >&2; exit 3`), nil)(t.Context(), "voice.ogg", nil)
	if err == nil || !strings.Contains(err.Error(), "exit status 3: no model") {
		t.Errorf("%v", err)
	}
	long, err := files.Command(script(`head -c 5000000 /dev/zero`), nil)(t.Context(), "voice.ogg", nil)
	if err != nil || len(long) != 4<<20 {
		t.Errorf("%d bytes, %v", len(long), err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat("../../voice.ogg"); err == nil {
		t.Error("it wrote where the name of the file said")
	}
}

// TestAnEndpointTranscribes: asked as that of OpenAI is, with its key.
func TestAnEndpointTranscribes(t *testing.T) {
	answer, status := `{"text":"la la"}`, 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		file, header, err := r.FormFile("file")
		if err != nil {
			t.Error(err)
			return
		}
		raw, _ := io.ReadAll(file)
		if string(raw) != "ogg" || header.Filename != "voice.ogg" || r.FormValue("model") != "whisper-1" || r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("%s of %s for %s by %s", raw, header.Filename, r.FormValue("model"), r.Header.Get("Authorization"))
		}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	}))
	defer server.Close()
	ask := files.Endpoint(server.URL, "whisper-1", func() (string, error) { return "k", nil })
	if words, err := ask(t.Context(), "voice.ogg", []byte("ogg")); err != nil || words != "la la" {
		t.Errorf("%q, %v", words, err)
	}
	status = 401
	if _, err := ask(t.Context(), "voice.ogg", []byte("ogg")); err == nil || !strings.Contains(err.Error(), "answered 401") {
		t.Error(err)
	}
	status, answer = 200, `{}`
	if _, err := ask(t.Context(), "voice.ogg", []byte("ogg")); err == nil || !strings.Contains(err.Error(), "without") {
		t.Error(err)
	}
}

// TestTextIsToldFromBytes: by what the bytes are.
func TestTextIsToldFromBytes(t *testing.T) {
	for body, want := range map[string]string{
		"plain": "plain", "\xef\xbb\xbfmarked": "marked", "\xff\xfeA\x00B\x00": "AB", "\xfe\xff\x00A\x00B": "AB", "": "",
	} {
		if got, err := files.Text([]byte(body)); got != want || err != nil {
			t.Errorf("%q is %q, %v", body, got, err)
		}
	}
	for _, body := range []string{"\xff\xd8\xff", "a\x00b", "PK\x03\x04", "latin \xe4"} {
		if got, err := files.Text([]byte(body)); err == nil {
			t.Errorf("%q is %q", body, got)
		}
	}
}
