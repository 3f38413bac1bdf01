package tg

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hubbub/peers/bridge"
	"hubbub/protocol"
	"hubbub/protocol/text"

	"github.com/go-telegram/bot/models"
)

// attachments returns the files of a message. Of a photo it takes the largest size.
func attachments(m *models.Message) (out []bridge.StoredFile) {
	add := func(kind, fileID, name, mime string, size int64) {
		out = append(out, bridge.StoredFile{
			Attachment: protocol.Attachment{Kind: kind, Name: name, MimeType: mime, Size: size}, ID: fileID,
		})
	}
	if n := len(m.Photo); n > 0 {
		add("photo", m.Photo[n-1].FileID, "photo.jpg", "image/jpeg", int64(m.Photo[n-1].FileSize))
	}
	if d := m.Document; d != nil && m.Animation == nil { // an animation also comes as a document
		add("document", d.FileID, d.FileName, d.MimeType, int64(d.FileSize))
	}
	if a := m.Animation; a != nil {
		add("animation", a.FileID, a.FileName, a.MimeType, int64(a.FileSize))
	}
	if a := m.Audio; a != nil {
		add("audio", a.FileID, audioName(a), a.MimeType, int64(a.FileSize))
	}
	if v := m.Video; v != nil {
		add("video", v.FileID, v.FileName, v.MimeType, int64(v.FileSize))
	}
	if l := m.LivePhoto; l != nil && len(m.Photo) == 0 {
		add("video", l.FileID, "live_photo.mp4", l.MimeType, int64(l.FileSize))
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

// describe returns words for a message that has no text of its own, or "".
func describe(m *models.Message) string {
	switch {
	case m.Sticker != nil && m.Sticker.Emoji != "":
		return m.Sticker.Emoji
	case m.Venue != nil:
		return fmt.Sprintf("[place: %s, %s]", m.Venue.Title, m.Venue.Address)
	case m.Location != nil:
		return describeLocation(m)
	case m.Contact != nil:
		return fmt.Sprintf("[contact: %s %s]", fullName(m.Contact.FirstName, m.Contact.LastName), m.Contact.PhoneNumber)
	case m.Poll != nil:
		lines := []string{"[poll: " + m.Poll.Question + "]"}
		for i := range m.Poll.Options {
			lines = append(lines, fmt.Sprintf("%d. %s", i+1, m.Poll.Options[i].Text))
		}
		return strings.Join(lines, "\n")
	case m.Checklist != nil:
		lines := []string{"[checklist: " + m.Checklist.Title + "]"}
		for i := range m.Checklist.Tasks {
			task := &m.Checklist.Tasks[i]
			box := "[ ]"
			if task.CompletionDate != 0 {
				box = "[x]"
			}
			lines = append(lines, fmt.Sprintf("%s %d. %s", box, task.ID, task.Text))
		}
		return strings.Join(lines, "\n")
	case m.Dice != nil:
		return fmt.Sprintf("[%s shows %d]", m.Dice.Emoji, m.Dice.Value)
	case m.Story != nil:
		return "[story of " + chatName(&m.Story.Chat) + "]"
	case m.Game != nil:
		return fmt.Sprintf("[game: %s, %s]", m.Game.Title, m.Game.Description)
	case m.PaidMedia != nil:
		return fmt.Sprintf("[paid media for %d stars, which a bot cannot see]", m.PaidMedia.StarCount)
	case m.Giveaway != nil:
		return fmt.Sprintf("[giveaway with %d winners: %s]", m.Giveaway.WinnerCount, m.Giveaway.PrizeDescription)
	case m.Invoice != nil:
		return fmt.Sprintf("[invoice: %s, %s, %s]", m.Invoice.Title, m.Invoice.Description,
			amount(m.Invoice.TotalAmount, m.Invoice.Currency))
	case m.Gift != nil:
		return fmt.Sprintf("[gift worth %d stars: %s]", m.Gift.Gift.StarCount,
			cmp.Or(m.Gift.Text, m.Gift.Gift.Sticker.Emoji))
	case m.WebAppData != nil:
		return fmt.Sprintf("[%s: %s]", m.WebAppData.ButtonText, m.WebAppData.Data)
	default:
		return describeService(m)
	}
}

// typedText returns what the author of a message typed into a poll, a checklist or a rich message, or "".
func typedText(m *models.Message, raw json.RawMessage) string {
	if m.Poll != nil || m.Checklist != nil {
		return describe(m)
	}
	return richText(raw)
}

// describeLocation returns words for a location: a live one says how long it is shared, and a
// moving one says where it is now.
func describeLocation(m *models.Message) string {
	l := m.Location
	at := strconv.FormatFloat(l.Latitude, 'f', -1, 64) + ", " + strconv.FormatFloat(l.Longitude, 'f', -1, 64)
	switch {
	case m.EditDate != 0 && l.LivePeriod == 0:
		return "[live location, no longer shared, last at: " + at + "]"
	case m.EditDate != 0:
		return "[live location, now at: " + at + "]"
	case l.LivePeriod == 0x7fffffff:
		return "[live location: " + at + "]"
	case l.LivePeriod > 0:
		return "[live location, shared for " + inTime(l.LivePeriod) + ": " + at + "]"
	default:
		return "[location: " + at + "]"
	}
}

// audioName returns the name of an audio file, which names its performer and title if they are known.
func audioName(a *models.Audio) string {
	song := text.OneLine(a.Performer + prefixed(" - ", a.Title))
	switch song = strings.TrimPrefix(song, "- "); {
	case song == "" || strings.Contains(strings.ToLower(a.FileName), strings.ToLower(song)):
		return a.FileName
	case a.FileName == "":
		return song
	default:
		return song + " (" + a.FileName + ")"
	}
}

// fileWords names the kinds of a message's files, or returns "".
func fileWords(m *models.Message) string {
	var kinds []string
	for _, file := range attachments(m) {
		kinds = append(kinds, file.Kind)
	}
	if kinds == nil {
		return ""
	}
	return "[" + strings.Join(kinds, ", ") + "]"
}

// envelopeFields are the members of a message that do not identify its kind of content.
var envelopeFields = []string{
	"message_id", "from", "date", "chat", "sender_chat", "sender_boost_count", "sender_tag", "sender_business_bot",
	"author_signature",
	"message_thread_id", "is_topic_message", "direct_messages_topic", "receiver_user", "ephemeral_message_id",
	"business_connection_id",
	"forward_origin", "is_automatic_forward", "reply_to_message", "external_reply", "quote", "reply_to_story",
	"reply_to_checklist_task_id",
	"reply_to_poll_option_id", "via_bot", "edit_date", "has_protected_content", "is_from_offline", "is_paid_post",
	"paid_star_count",
	"media_group_id", "effect_id", "text", "entities", "caption", "caption_entities", "show_caption_above_media",
	"has_media_spoiler",
	"link_preview_options", "suggested_post_info", "reply_markup", "guest_query_id", "guest_bot_caller_user",
	"guest_bot_caller_chat",
}

// reportedElsewhere are the members of service messages that other updates report.
var reportedElsewhere = []string{
	"new_chat_members", "left_chat_member", "group_chat_created", "supergroup_chat_created", "channel_chat_created",
	"migrate_to_chat_id", "migrate_from_chat_id",
}

// contentFields are the kinds of content that people send. Other messages without text and files
// are service messages.
var contentFields = []string{
	"sticker", "venue", "location", "contact", "poll", "checklist", "dice", "story", "game", "paid_media", "giveaway",
	"giveaway_winners",
	"invoice", "web_app_data", "rich_message", "users_shared", "chat_shared", "passport_data",
}

// describeKind describes a message without text by the names of its members, so that it also
// describes kinds of a later Bot API. It reports whether the message is content from a person. In
// a direct chat an unknown kind counts as content, so that it is answered.
func describeKind(raw json.RawMessage, direct bool) (words string, says bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return "", false
	}
	var kinds []string
	for _, member := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(envelopeFields, member) && !slices.Contains(reportedElsewhere, member) {
			kinds = append(kinds, strings.ReplaceAll(member, "_", " "))
			says = says || slices.Contains(contentFields, member) || direct && !isServiceField(member)
		}
	}
	switch {
	case kinds != nil:
		return "[" + strings.Join(kinds, ", ") + "]", says
	case direct && !slices.ContainsFunc(reportedElsewhere, func(member string) bool { return members[member] != nil }):
		return "[a message with nothing in it that a bot can see]", true
	}
	return "", false
}

// isServiceField reports whether a member belongs to a service message in Telegram's
// documentation.
func isServiceField(member string) bool {
	for _, part := range []string{"pinned_", "new_chat_", "delete_chat_", "chat_", "forum_topic_",
		"message_auto_delete_", "boost_added", "video_chat_",
		"write_access_", "connected_website", "proximity_", "checklist_tasks_", "gift_", "giveaway_",
		"general_forum_", "suggested_post_", "_price_changed"} {
		if strings.Contains(member, part) {
			return true
		}
	}
	return false
}

// richText returns the text of a rich message, one line for each block.
func richText(raw json.RawMessage) string {
	var m struct {
		Rich struct {
			Blocks []any `json:"blocks"`
		} `json:"rich_message"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return ""
	}
	var lines []string
	for _, block := range m.Rich.Blocks {
		lines = append(lines, blockText(block, false))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// blockText returns the text of a part of a rich message: the strings under "text", including
// those in lists, and the addresses of links.
func blockText(part any, isText bool) string {
	var b strings.Builder
	switch part := part.(type) {
	case string:
		if isText {
			return part
		}
	case []any:
		for _, item := range part {
			b.WriteString(blockText(item, isText))
			if !isText {
				b.WriteByte('\n')
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(part)) {
			b.WriteString(blockText(part[key], key == "text"))
		}
		if address, _ := part["url"].(string); address != "" && part["type"] == "url" {
			b.WriteString(" (" + address + ")")
		}
	}
	return b.String()
}

// originalAuthor returns the author of a forwarded message or of one that an inline bot wrote, or
// "".
func originalAuthor(m *models.Message) string {
	switch {
	case m.ForwardOrigin != nil:
		return originName(m.ForwardOrigin)
	case m.ViaBot != nil:
		return withUsername(nameOf(m.ViaBot), m.ViaBot.Username)
	default:
		return ""
	}
}

// originName returns the author of a forwarded or quoted message, as Telegram gives it. It is a
// name for people, not an identity.
func originName(o *models.MessageOrigin) string {
	switch {
	case o.MessageOriginUser != nil:
		u := &o.MessageOriginUser.SenderUser
		return withUsername(nameOf(u), u.Username)
	case o.MessageOriginHiddenUser != nil:
		return o.MessageOriginHiddenUser.SenderUserName
	case o.MessageOriginChat != nil:
		return chatName(&o.MessageOriginChat.SenderChat)
	case o.MessageOriginChannel != nil:
		return chatName(&o.MessageOriginChannel.Chat)
	default:
		return "somebody"
	}
}

func chatName(c *models.Chat) string {
	return withUsername(cmp.Or(c.Title, fullName(c.FirstName, c.LastName), id(c.ID)), c.Username)
}

func withUsername(name, username string) string {
	if username == "" {
		return name
	}
	return name + " (@" + username + ")"
}

// membershipText describes other members who join or leave. Another update reports this for the
// bot itself.
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

// nameOf returns the name of a user, or the ID if there is none.
func nameOf(u *models.User) string { return cmp.Or(fullName(u.FirstName, u.LastName), id(u.ID)) }

func fullName(first, last string) string { return strings.TrimSpace(first + " " + last) }
