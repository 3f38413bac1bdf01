package tg

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-telegram/bot/models"
)

// An attachment is a file of a message, before it has a reference.
type attachment struct {
	kind, fileID, name, mime string
	size                     int64
}

// attachments lists the files of a message. Of a photo it takes the largest size.
func attachments(m *models.Message) []attachment {
	var out []attachment
	if n := len(m.Photo); n > 0 {
		p := m.Photo[n-1]
		out = append(out, attachment{"photo", p.FileID, "photo.jpg", "image/jpeg", int64(p.FileSize)})
	}
	if d := m.Document; d != nil && m.Animation == nil { // an animation comes as both
		out = append(out, attachment{"document", d.FileID, d.FileName, d.MimeType, int64(d.FileSize)})
	}
	if a := m.Animation; a != nil {
		out = append(out, attachment{"animation", a.FileID, a.FileName, a.MimeType, int64(a.FileSize)})
	}
	if a := m.Audio; a != nil {
		out = append(out, attachment{"audio", a.FileID, a.FileName, a.MimeType, int64(a.FileSize)})
	}
	if v := m.Video; v != nil {
		out = append(out, attachment{"video", v.FileID, v.FileName, v.MimeType, int64(v.FileSize)})
	}
	if v := m.Voice; v != nil {
		out = append(out, attachment{"voice", v.FileID, "voice.ogg", v.MimeType, int64(v.FileSize)})
	}
	if v := m.VideoNote; v != nil {
		out = append(out, attachment{"video_note", v.FileID, "video.mp4", "video/mp4", int64(v.FileSize)})
	}
	if s := m.Sticker; s != nil {
		out = append(out, attachment{"sticker", s.FileID, "sticker", "", int64(s.FileSize)})
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
		return fmt.Sprintf("[contact: %s %s]", strings.TrimSpace(m.Contact.FirstName+" "+m.Contact.LastName), m.Contact.PhoneNumber)
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
		if m.NewChatMembers[i].ID != bot.ID {
			joined = append(joined, fullName(&m.NewChatMembers[i]))
		}
	}
	switch {
	case len(joined) > 0:
		return strings.Join(joined, ", ") + " joined"
	case m.LeftChatMember != nil && m.LeftChatMember.ID != bot.ID:
		return fullName(m.LeftChatMember) + " left"
	default:
		return ""
	}
}

func fullName(u *models.User) string {
	if name := strings.TrimSpace(u.FirstName + " " + u.LastName); name != "" {
		return name
	}
	return id(u.ID)
}
