package files_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"hubbub/peers/agent/files"
)

// TestTranscribeCommand_GetsAFileAndNoSecret checks that the command gets the recording as a file with the right
// extension and no secret of the agent, and that nothing is left behind. If it fails, the error
// contains its output.
func TestTranscribeCommand_GetsAFileAndNoSecret(t *testing.T) {
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

// TestPDFCommand_GetsBytesAndNoSecret checks that the command gets the bytes on its input and no
// secret of the agent, and that the processes that it started end with it, even after a timeout.
func TestPDFCommand_GetsBytesAndNoSecret(t *testing.T) {
	t.Setenv("HUBBUB_TOKEN", "top-secret")
	t.Setenv("MODEL_KEY", "key-secret")
	script := func(body string) []string { return []string{"/bin/sh", "-c", body, "pdftotext", "-q"} }
	words, err := files.Filter(script(`echo "$1 $# $(tr a-z A-Z) $HUBBUB_TOKEN$MODEL_KEY"`), []string{"MODEL_KEY"})(t.Context(), "a.pdf", []byte("%pdf"))
	if err != nil || words != "-q 1 %PDF \n" {
		t.Errorf("%q, %v", words, err)
	}
	if words, err := files.Filter(script(`echo unread`), nil)(t.Context(), "", make([]byte, 1<<20)); err != nil || words != "unread\n" {
		t.Errorf("input that is not read: %q, %v", words, err)
	}
	if _, err := files.Filter([]string{filepath.Join(t.TempDir(), "none")}, nil)(t.Context(), "", nil); err == nil {
		t.Error("a program that is not there reads")
	}
	if _, err := files.Filter(script(`echo "damaged
page" >&2; exit 1`), nil)(t.Context(), "", nil); err == nil || !strings.Contains(err.Error(), "exit status 1: damaged page") {
		t.Errorf("%v", err)
	}
	fifo := filepath.Join(t.TempDir(), "begun")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	failed := make(chan error, 1)
	go func() {
		_, err := files.Filter(script(`exec 3>`+fifo+`; sleep 1000 & echo begun >&3; wait`), nil)(ctx, "", nil)
		failed <- err
	}()
	r, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadFull(r, make([]byte, len("begun\n"))); err != nil {
		t.Fatal(err)
	}
	giveUp()
	if err := <-failed; err == nil {
		t.Error("given up, and yet no error")
	}
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 { // it ends when no process has it open
		t.Errorf("%q, %v", rest, err)
	}
}

// TestTranscribeEndpoint_IsCalledLikeOpenAI also checks the key.
func TestTranscribeEndpoint_IsCalledLikeOpenAI(t *testing.T) {
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

// TestIsText_LooksAtTheBytes checks that the bytes decide whether a file is text.
func TestIsText_LooksAtTheBytes(t *testing.T) {
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

// TestRead_LimitsAnExpandingArchive checks that only the first parts of a small archive with
// large contents are read.
func TestRead_LimitsAnExpandingArchive(t *testing.T) {
	var document bytes.Buffer
	archive := zip.NewWriter(&document)
	for i := range 40 {
		part, err := archive.Create(fmt.Sprintf("ppt/slides/slide%d.xml", i))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(part, "<p>slide %d<!--%s--></p>", i, strings.Repeat("x", 1<<10))
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	words, err := files.OfficeText(document.Bytes(), 32<<10)
	if err != nil || !strings.HasPrefix(words, "slide 0\nslide 1\n") || strings.Contains(words, "slide 35") {
		t.Errorf("of the document were read %q, %v", words, err)
	}
}
