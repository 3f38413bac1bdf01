package files

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// images are the image types that models accept.
var images = []string{"image/jpeg", "image/png", "image/gif", "image/webp"}

// isImage reports whether models accept images of a type.
func isImage(mime string) bool { return slices.Contains(images, mime) }

// MayBeImage reports whether a file can be shown as an image, judging by its message.
func MayBeImage(a *protocol.Attachment) bool {
	return a.Kind == "photo" || a.Kind == "document" && isImage(a.MimeType)
}

// maxTranscript bounds the bytes of one voice message's transcript in a prompt. The reading tool
// returns the rest.
const maxTranscript = 8 << 10

// Attachments are the files that a turn shows.
type Attachments struct {
	Images []harness.Image
	bytes  int
}

// Describe returns the prompt line about the n-th file of an event, counted from 1. If the file
// is an image and the model accepts images, it is added to shown.
func (k *Cache) Describe(ctx context.Context, e *mailbox.Entry, n int, sees bool, shown *Attachments) string {
	a := &e.Files()[n-1]
	line := fmt.Sprintf("%s %q %s %d bytes", a.Kind, a.Name, a.MimeType, a.Size)
	if n > len(e.Content.Attachments) {
		line = "of the quoted message: " + line
	}
	switch {
	case a.Kind == kindVoice:
		return line + ": " + k.transcriptLine(ctx, e, a)
	case isRecording(a) && k.Transcribe != nil:
		return line + fmt.Sprintf(": read its transcript with chat.read_file, eventId %s, file %d", e.EventID, n)
	case MayBeImage(a):
		return line + ": " + k.showImage(ctx, e, a, sees, shown)
	case a.Kind == "document":
		return line + fmt.Sprintf(": read it with chat.read_file, eventId %s, file %d", e.EventID, n)
	default:
		return line + ": you cannot see or hear files of this kind"
	}
}

// showImage adds an image to shown, and returns a note about it, or why it is not shown.
func (k *Cache) showImage(ctx context.Context, e *mailbox.Entry, a *protocol.Attachment, sees bool,
	shown *Attachments) string {
	const not = "not shown to you: "
	switch {
	case !sees:
		return not + "you do not accept images"
	case len(shown.Images) == maxImages:
		return not + fmt.Sprintf("at most %d images are shown at once", maxImages)
	case a.Size > maxImage:
		return not + tooLarge(a.Size)
	}
	f, err := k.Get(ctx, e.Chat, a)
	switch {
	case err != nil:
		return not + Problem(err)
	case !isImage(f.Mime):
		return not + "it is not JPEG, PNG, GIF or WebP"
	case len(f.Body) > maxImage:
		return not + tooLarge(int64(len(f.Body)))
	case shown.bytes+len(f.Body) > maxImageBytes:
		return not + "the images of this turn exceed their total size"
	}
	shown.bytes += len(f.Body)
	shown.Images = append(shown.Images, harness.Image{MimeType: f.Mime, Data: f.Body})
	return fmt.Sprintf("shown to you as image %d", len(shown.Images))
}

// isRecording reports whether a file may contain speech.
func isRecording(a *protocol.Attachment) bool {
	return a.Kind == kindVoice || a.Kind == "audio" || a.Kind == "video_note"
}

func tooLarge(n int64) string {
	return fmt.Sprintf("it has %s; an image may have at most %s", megabytes(n), megabytes(maxImage))
}

// transcriptLine returns the transcript of a voice message, or why there is none.
func (k *Cache) transcriptLine(ctx context.Context, e *mailbox.Entry, a *protocol.Attachment) string {
	words, err := k.Transcript(ctx, e.Chat, a)
	if err != nil {
		return "you cannot hear it: " + Problem(err)
	}
	said := text.Prefix(words, maxTranscript)
	if len(said) < len(words) {
		said += " ... (the rest with chat.read_file)"
	}
	return "its transcript: " + cmp.Or(strings.TrimSpace(said), "(nothing)")
}

// Transcript returns the transcript of a recording. Each recording is transcribed once.
func (k *Cache) Transcript(ctx context.Context, chat protocol.Topic, a *protocol.Attachment) (string, error) {
	if k.Transcribe == nil {
		return "", problem("no transcription is configured (--transcribe)")
	}
	f, err := k.Get(ctx, chat, a)
	if err != nil {
		return "", err
	}
	return k.convert(ctx, f, cmp.Or(a.Name, "voice.ogg"), k.Transcribe)
}

// noText is stored as the text of a file without any.
const noText = "(nothing)"

// convert returns the text that a program extracts from a file. The program runs once per file.
func (k *Cache) convert(ctx context.Context, f *mailbox.File, name string, tell Transcriber) (string, error) {
	got, err, _ := k.inFlight.Do("words of "+f.Ref, func() (any, error) {
		v := k.Mailbox.View(ctx)
		if known := v.File(f.Ref); known != nil && known.Text != "" || v.Err() != nil {
			return known, v.Err()
		}
		words, err := tell(ctx, name, f.Body)
		if err != nil {
			return nil, err
		}
		words = strings.ToValidUTF8(text.Prefix(strings.TrimSpace(words), maxText), "\ufffd")
		told := &mailbox.File{Ref: f.Ref, Mime: f.Mime, Body: f.Body, Text: cmp.Or(words, noText)}
		return told, k.Mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.SaveFile(told) })
	})
	if err != nil {
		k.Log.Warn().Err(err).Str("type", f.Mime).Msg("file not converted to text")
		return "", problem("its text could not be determined")
	}
	return got.(*mailbox.File).Text, nil //nolint:errcheck // it is nothing else
}

// Read returns the text of a document or a recording.
func (k *Cache) Read(ctx context.Context, chat protocol.Topic, a *protocol.Attachment) (string, error) {
	if isRecording(a) {
		return k.Transcript(ctx, chat, a)
	}
	f, err := k.Get(ctx, chat, a)
	switch {
	case err != nil:
		return "", err
	case f.Mime == "application/pdf":
		return k.pdfText(ctx, f, a.Name)
	case isImage(f.Mime):
		return "", problem("it is an image; models that accept images see it with its message")
	}
	words, err := Text(f.Body)
	if err != nil {
		return "", problem("it is " + f.Mime +
			", which cannot be read as text; ask for it as text, or as a docx or odt document")
	}
	return words, nil
}

// pdfText returns the text of a PDF. Each PDF is read once.
func (k *Cache) pdfText(ctx context.Context, f *mailbox.File, name string) (string, error) {
	if k.ReadPDF == nil {
		return "", problem("it is a PDF, and no PDF reader is configured (--read-pdf); ask for it as text, or as a " +
			"docx or odt document")
	}
	words, err := k.convert(ctx, f, name, k.ReadPDF)
	if words == noText {
		return "", problem("it is a PDF without text; its pages may be images")
	}
	return words, err
}
