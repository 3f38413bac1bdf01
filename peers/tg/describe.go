package tg

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// An attachment is a file of a message, before it has a reference.
type attachment struct {
	protocol.Attachment
	fileID string
}

// attachments lists the files of a message. Of a photo it takes the largest size.
func attachments(m *models.Message) (out []attachment) {
	add := func(kind, fileID, name, mime string, size int64) {
		out = append(out, attachment{protocol.Attachment{Kind: kind, Name: name, MimeType: mime, Size: size}, fileID})
	}
	if n := len(m.Photo); n > 0 {
		add("photo", m.Photo[n-1].FileID, "photo.jpg", "image/jpeg", int64(m.Photo[n-1].FileSize))
	}
	if d := m.Document; d != nil && m.Animation == nil { // an animation comes as both
		add("document", d.FileID, d.FileName, d.MimeType, int64(d.FileSize))
	}
	if a := m.Animation; a != nil {
		add("animation", a.FileID, a.FileName, a.MimeType, int64(a.FileSize))
	}
	if a := m.Audio; a != nil {
		add("audio", a.FileID, a.FileName, a.MimeType, int64(a.FileSize))
	}
	if v := m.Video; v != nil {
		add("video", v.FileID, v.FileName, v.MimeType, int64(v.FileSize))
	}
	if v := m.Voice; v != nil {
		add("voice", v.FileID, "voice.ogg", v.MimeType, int64(v.FileSize))
	}
	if v := m.VideoNote; v != nil {
		add("video_note", v.FileID, "video.mp4", "video/mp4", int64(v.FileSize))
	}
	if s := m.Sticker; s != nil {
		add("sticker", s.FileID, "sticker", "", int64(s.FileSize))
	}
	return out
}

// describe returns words for a message that has no text of its own.
func describe(m *models.Message) string {
	switch {
	case m.Sticker != nil && m.Sticker.Emoji != "":
		return m.Sticker.Emoji
	case m.Venue != nil:
		return fmt.Sprintf("[place: %s, %s]", m.Venue.Title, m.Venue.Address)
	case m.Location != nil:
		return "[location: " + strconv.FormatFloat(m.Location.Latitude, 'f', -1, 64) + ", " +
			strconv.FormatFloat(m.Location.Longitude, 'f', -1, 64) + "]"
	case m.Contact != nil:
		return fmt.Sprintf("[contact: %s %s]", fullName(m.Contact.FirstName, m.Contact.LastName), m.Contact.PhoneNumber)
	case m.Poll != nil:
		return "[poll: " + m.Poll.Question + "]"
	case m.Dice != nil:
		return fmt.Sprintf("[%s shows %d]", m.Dice.Emoji, m.Dice.Value)
	default:
		return ""
	}
}

// membershipText returns words for others coming or leaving. Another update tells
// of the bot's own coming and going.
func membershipText(m *models.Message, bot *models.User) string {
	var joined []string
	for i := range m.NewChatMembers {
		if u := &m.NewChatMembers[i]; u.ID != bot.ID {
			joined = append(joined, nameOf(u))
		}
	}
	switch {
	case len(joined) > 0:
		return strings.Join(joined, ", ") + " joined"
	case m.LeftChatMember != nil && m.LeftChatMember.ID != bot.ID:
		return nameOf(m.LeftChatMember) + " left"
	default:
		return ""
	}
}

// nameOf returns the name of a user, else the id.
func nameOf(u *models.User) string { return cmp.Or(fullName(u.FirstName, u.LastName), id(u.ID)) }

func fullName(first, last string) string { return strings.TrimSpace(first + " " + last) }
