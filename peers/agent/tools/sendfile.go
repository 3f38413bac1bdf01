package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf16"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/agent/mailbox/obligations"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/text"
)

// maxFilesSent is the maximum number of files sent in response to one event.
const maxFilesSent = 10

const maxFileName = 255 // bytes

var sendFileTool = harness.Tool{
	Name:  "chat.send_file",
	Title: "Send a file",
	Description: "Send a file or picture of your workspace to the chat of an event, before its answer: it is not the " +
		"answer. At most 700 KiB, " +
		"and 10 files for an event. The same file is sent once, however often the call is repeated.",
	OutputSchema: json.RawMessage(`{"type":"object","properties":{"messageId":{"type":"string"},
		"status":{"type":"string","enum":["sent","duplicate","refused"]},"reason":{"type":"string"}},"required":["status"]}`),
	Idempotent: true,
}

type sendFileArguments struct {
	Path      string `json:"path" jsonschema:"of the file, in the workspace"`
	Caption   string `json:"caption,omitempty" jsonschema:"a text shown beside it, Markdown"`
	InReplyTo string `json:"inReplyTo,omitempty" jsonschema:"eventId of the event; default: that of this turn"`
}

func (b *Toolset) sendFile(ctx context.Context, args *sendFileArguments) harness.Result {
	args.Caption = strings.TrimSpace(VisibleText(args.Caption))
	data, err := readInFolder(b.provider.Workspace, args.Path)
	if err == nil && !bytes.Equal(b.provider.Redact.Bytes(data), data) {
		err = errors.New("it appears to contain a secret, such as a key; remove it first")
	}
	if err == nil && len(utf16.Encode([]rune(args.Caption))) > protocol.MaxCaption {
		err = fmt.Errorf("a caption has at most %d characters: send the rest with chat.send_message",
			protocol.MaxCaption)
	}
	if err != nil {
		return harness.ErrorResult("The file was not sent: "+err.Error()+".",
			result{Status: "refused", Reason: "invalid"})
	}
	b.refreshBroker(ctx, args.InReplyTo)
	file := &protocol.File{Name: filepath.Base(args.Path), Data: data}
	return b.act(ctx, sendFileTool, args.InReplyTo, result{Status: "refused"}, func(t *attempt) result {
		if t.event == nil {
			t.permit(obligations.ReplyContext(&t.View, nil, ""), args.Caption)
			return result{}
		}
		if !mailbox.ShowsMessages(t.event.Chat) && t.refuse(noFiles) {
			return result{}
		}
		key := fileKey(t.event, file, args.Caption)
		if before := t.SentAs(key); before != nil {
			return result{MessageID: before.MessageID, Status: "duplicate"}
		}
		switch {
		case t.permit(obligations.ReplyContext(&t.View, t.event, args.Caption), file.Name):
			return result{}
		case t.FilesFor(t.event) >= maxFilesSent:
			t.refusal = tooManyFiles
			return result{}
		}
		id := t.Reply(t.event, mailbox.SentFile, key,
			protocol.ChatReply{Text: args.Caption, File: file})
		return result{MessageID: id, Status: "sent"}
	})
}

// readInFolder reads a file in a folder. Paths and links that lead out of the folder are refused,
// including hard links.
func readInFolder(folder, path string) (data []byte, err error) {
	if folder == "" {
		return nil, errors.New("you have no workspace; it is set with --workspace")
	}
	if filepath.IsAbs(path) {
		if path, err = filepath.Rel(folder, path); err != nil {
			return nil, errors.New("it is not in your workspace")
		}
	}
	if name := filepath.Base(path); len(name) > maxFileName || !text.IsCleanLine(name) {
		return nil, errors.New("its name is too long or has invisible characters; rename it")
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, errors.New("the workspace cannot be opened")
	}
	defer root.Close()                                               //nolint:errcheck // it was read
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // opening a pipe would block
	if err != nil {
		return nil, fmt.Errorf("%s cannot be opened in your workspace: it does not exist there, or leads out of it",
			text.Clip(text.OneLine(path), 200))
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil || !info.Mode().IsRegular():
		return nil, errors.New("it is not a regular file")
	case isHardLink(info):
		return nil, errors.New("it is a hard link to a file that may be outside of your workspace; send a copy instead")
	case info.Size() == 0:
		return nil, errors.New("it is empty")
	}
	data, err = io.ReadAll(io.LimitReader(f, protocol.MaxFileData+1))
	switch {
	case err != nil:
		return nil, errors.New("it cannot be read")
	case len(data) > protocol.MaxFileData:
		return nil, fmt.Errorf("it has %d bytes; at most %d are sent", max(info.Size(), int64(len(data))),
			protocol.MaxFileData)
	}
	return data, nil
}

// isHardLink reports whether a file has more than one name.
func isHardLink(info os.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && s.Nlink > 1
}

// fileKey is the key that makes sending a file in response to an event idempotent.
func fileKey(e *mailbox.Entry, f *protocol.File, caption string) string {
	sum := sha256.Sum256([]byte(f.Name + "\x00" + caption + "\x00" + string(f.Data)))
	return "file:" + e.EventID + ":" + hex.EncodeToString(sum[:16])
}

var noFiles = attention.Refusal{
	Reason: "no_files", Advice: "Files can only be shown in Telegram chats. Describe the content of the file instead.",
}

var tooManyFiles = attention.Refusal{
	Reason: "too_many_files", Advice: fmt.Sprintf("You have sent %d files for this event, which is the limit.",
		maxFilesSent),
}
