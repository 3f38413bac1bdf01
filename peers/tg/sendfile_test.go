package tg_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"
)

// TestFile_IsSentOnce checks that a picture is sent as a photo, unless Telegram refuses it, and
// any other file as a document, with its caption and once per key. Invalid files are rejected.
func TestFile_IsSentOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, source := h.talk()
		png := "\x89PNG\r\n\x1a\n picture"
		for _, c := range []struct{ key, name, data, text string }{
			{"k1", "a.png", png, "a **bold** plan"}, {"k1", "a.png", png, "a **bold** plan"}, {"k2", "huge.png", png + " wide", ""}, {"k3", "a b.txt", "words", ""},
		} {
			r := reply(t, lead, dm.ID, protocol.ChatReply{
				Text: c.text, InReplyTo: source, IdempotencyKey: c.key, File: &protocol.File{Name: c.name, Data: []byte(c.data)},
			})
			if r.DeliveredTo != 1 {
				t.Fatalf("%s: %+v", c.key, r)
			}
		}
		h.pass(20 * time.Second)
		var shown []string
		for _, call := range h.api.Calls("sendPhoto", "sendDocument") {
			m := call.Message
			switch {
			case m == nil: // refused
			case len(m.Photo) > 0:
				shown = append(shown, "photo "+m.Caption+" "+string(h.api.Content(m.Photo[0].FileID)))
				if len(m.CaptionEntities) != 1 || m.CaptionEntities[0].Type != "bold" {
					t.Errorf("%+v", m.CaptionEntities)
				}
			case m.Document != nil:
				shown = append(shown, m.Document.FileName+" "+m.Caption+string(h.api.Content(m.Document.FileID)))
			}
		}
		want := []string{"photo a bold plan " + png, "huge.png " + png + " wide", "a b.txt words"}
		if strings.Join(shown, "|") != strings.Join(want, "|") {
			t.Errorf("shown: %q\nwant %q", shown, want)
		}
		for range want {
			if s := status(t, lead); s.Status != protocol.StatusDelivered || s.SourceID == "" {
				t.Errorf("%+v", s)
			}
		}
		full := make([]byte, protocol.MaxFileData)
		if r := reply(t, lead, dm.ID, protocol.ChatReply{Text: strings.Repeat("é", 1024), File: &protocol.File{Name: "f", Data: full}}); r.DeliveredTo != 1 {
			t.Errorf("at the limits: %+v", r)
		}
		for why, bad := range map[string]protocol.ChatReply{
			"the file has 0 bytes":              {File: &protocol.File{Name: "a"}},
			"the file has 716801 bytes":         {File: &protocol.File{Name: "a", Data: append(bytes.Clone(full), 0)}},
			"a file needs a name":               {File: &protocol.File{Name: "../a", Data: full[:1]}},
			"has 1025 characters; at most 1024": {Text: strings.Repeat("é", 1025), File: &protocol.File{Name: "a", Data: full[:1]}},
			"cannot have buttons":               {Text: "x", Edits: "k", File: &protocol.File{Name: "a", Data: full[:1]}},
			"1 to 255 bytes without a fol":      {File: &protocol.File{Name: strings.Repeat("a", 256), Data: full[:1]}},
		} {
			r := reply(t, lead, dm.ID, bad)
			if len(r.Failures) != 1 || !strings.Contains(r.Failures[0].Error, why) {
				t.Errorf("%s: %+v", why, r)
			}
		}
	})
}

func TestFile_UnansweredIsNotRepeated(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		h.api.Fail(tgtest.Fault{Method: "sendDocument", Cut: tgtest.CutAfter})
		reply(t, lead, dm.ID, protocol.ChatReply{IdempotencyKey: "k", File: &protocol.File{Name: "a.txt", Data: []byte("words")}})
		h.pass(time.Minute)
		if s := status(t, lead); s.Status != protocol.StatusUnknown {
			t.Errorf("%+v", s)
		}
		if n := len(h.api.Calls("sendDocument")); n != 1 {
			t.Errorf("%d calls", n)
		}
	})
}
