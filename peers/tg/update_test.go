package tg

import (
	"strings"
	"testing"

	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
	"github.com/google/go-cmp/cmp"
)

const (
	inDM    = `"date":1780315200,"from":{"id":77,"first_name":"Will","last_name":"May","username":"will"},"chat":{"id":77,"type":"private","first_name":"Will","last_name":"May"}`
	inGroup = `"date":1780315200,"from":{"id":77,"first_name":"Will"},"chat":{"id":-5,"type":"group","title":"House"}`
	inForum = `"date":1780315200,"from":{"id":77,"first_name":"Will"},"chat":{"id":-6,"type":"supergroup","title":"House","is_forum":true}`
	member  = `"date":1780315200,"from":{"id":77,"first_name":"Will"},"chat":{"id":-5,"type":"group","title":"House"}`
)

// An updateEffects describes a parsed update: the message that agents receive, and its other
// effects.
type updateEffects struct {
	Chat             *protocol.Chat
	Author           protocol.Author
	Event, Text      string
	At               string
	Signal           string
	Message, Thread  int
	Suffix, Skip     string
	Command, Args    string
	Present          string // "in", "out", or "" if unchanged
	Quotes           int
	QuotesBot        bool
	QuotesUser       string
	Album, Callback  string
	From, To         int64 // IDs of a group that has moved
	Files            int
	User             int64
	UnreadableReason string
}

func tell(raw string) updateEffects {
	h, err := parseUpdate([]byte(raw), &models.User{ID: 42, Username: "hubbub_bot"})
	if err != nil {
		return updateEffects{UnreadableReason: err.Error()}
	}
	c := &h.data.Content
	w := updateEffects{
		Chat: c.Chat, Author: h.author, Event: c.Event, Text: c.Text, At: c.CreatedAt, Signal: c.Signal, Message: h.message, Thread: h.thread,
		Suffix: h.suffix, Skip: h.skip, Command: h.command, Args: h.arguments, Quotes: h.data.ReplyMessage, QuotesBot: h.data.ReplyToBot,
		QuotesUser: h.data.ReplyUser, Album: h.album, Callback: h.callback, From: h.moved.from, To: h.moved.to, Files: len(h.files.own), User: h.user,
	}
	if h.present != nil {
		w.Present = map[bool]string{true: "in", false: "out"}[*h.present]
	}
	return w
}

// Parts of the updates and of their expected results.
const sampleTime = "2026-06-01T12:00:00Z"

var (
	sampleDM, sampleGroup = &protocol.Chat{ID: "77", Kind: "dm", Title: "Will May"}, &protocol.Chat{ID: "-5", Kind: "channel", Title: "House"}
	sampleAuthor          = protocol.Author{ID: "77", Kind: "human", DisplayName: "Will May", Username: "will"}
	samplePlainAuthor     = protocol.Author{ID: "77", Kind: "human", DisplayName: "Will"}
)

// updateCases are updates and everything that is parsed from them.
var updateCases = map[string]struct {
	raw  string
	want updateEffects
}{
	"a direct message": {
		`{"update_id":1,"message":{"message_id":9,` + inDM + `,"text":"hi"}}`,
		updateEffects{Chat: sampleDM, Author: sampleAuthor, Event: "message", Text: "hi", At: sampleTime, Message: 9, User: 77},
	},
	"an edit": {
		`{"update_id":1,"edited_message":{"message_id":9,"edit_date":1780315260,` + inDM + `,"text":"hi there","media_group_id":"g"}}`,
		updateEffects{Chat: sampleDM, Author: sampleAuthor, Event: "edit", Text: "hi there", At: "2026-06-01T12:01:00Z", Message: 9, Album: "g", User: 77},
	},
	"an answer to the bot": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"text":"yes","reply_to_message":{"message_id":8,"from":{"id":42,"is_bot":true,"username":"hubbub_bot"}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "yes", At: sampleTime, Message: 9, Quotes: 8, QuotesBot: true, QuotesUser: "hubbub_bot", User: 77},
	},
	"an answer to somebody without a name": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"text":"yes","reply_to_message":{"message_id":8,"from":{"id":78}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "yes", At: sampleTime, Message: 9, Quotes: 8, QuotesUser: "78", User: 77},
	},
	"a chain of answers is no thread": {
		`{"update_id":1,"message":{"message_id":9,"message_thread_id":3,` + inGroup + `,"text":"yes"}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "yes", At: sampleTime, Message: 9, User: 77},
	},
	"in a topic": {
		`{"update_id":1,"message":{"message_id":9,"message_thread_id":3,"is_topic_message":true,` + inForum + `,"text":"yes","reply_to_message":{"message_id":3}}}`,
		updateEffects{
			Chat: &protocol.Chat{ID: "-6", Kind: "thread", ThreadID: "3", Title: "House"}, Author: samplePlainAuthor, Event: "message", Text: "yes", At: sampleTime,
			Message: 9, Thread: 3, User: 77,
		},
	},
	"in General": {
		`{"update_id":1,"message":{"message_id":9,` + inForum + `,"text":"yes"}}`,
		updateEffects{
			Chat: &protocol.Chat{ID: "-6", Kind: "channel", ThreadID: "1", Title: "House"}, Author: samplePlainAuthor, Event: "message", Text: "yes", At: sampleTime,
			Message: 9, Thread: 1, User: 77,
		},
	},
	"a picture of an album": {
		`{"update_id":1,"message":{"message_id":9,` + inDM + `,"caption":"look","media_group_id":"g","photo":[{"file_id":"f","file_unique_id":"u","width":1,"height":1}]}}`,
		updateEffects{Chat: sampleDM, Author: sampleAuthor, Event: "message", Text: "look", At: sampleTime, Message: 9, Album: "g", Files: 1, User: 77},
	},
	"another bot": {
		`{"update_id":1,"message":{"message_id":9,"date":1780315200,"from":{"id":50,"is_bot":true,"first_name":"Ci","username":"ci_bot"},"chat":{"id":-5,"type":"group","title":"House"},"text":"red"}}`,
		updateEffects{
			Chat: sampleGroup, Author: protocol.Author{ID: "50", Kind: "agent", DisplayName: "Ci", Username: "ci_bot"}, Event: "message", Text: "red", At: sampleTime,
			Message: 9, User: 50,
		},
	},
	"in the name of a channel": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"sender_chat":{"id":-7,"type":"channel","title":"News","username":"news"},"text":"new"}}`,
		updateEffects{
			Chat: sampleGroup, Author: protocol.Author{ID: "-7", Kind: "human", DisplayName: "News", Username: "news"}, Event: "message", Text: "new", At: sampleTime,
			Message: 9, User: 77,
		},
	},
	"a command": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"text":"/Pair@Hubbub_bot  ABCD "}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "/Pair@Hubbub_bot  ABCD ", At: sampleTime, Message: 9, Command: "/pair", Args: "ABCD", User: 77},
	},
	"a command with a line behind it": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"text":"/pair\nABCD"}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "/pair\nABCD", At: sampleTime, Message: 9, Command: "/pair", Args: "ABCD", User: 77},
	},
	"a command of another bot": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"text":"/pair@other_bot ABCD"}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "/pair@other_bot ABCD", At: sampleTime, Message: 9, User: 77},
	},
	"a word with a slash": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"text":"/shrug it"}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "/shrug it", At: sampleTime, Message: 9, User: 77},
	},
	"an edited command": {
		`{"update_id":1,"edited_message":{"message_id":9,` + inDM + `,"text":"/start"}}`,
		updateEffects{Chat: sampleDM, Author: sampleAuthor, Event: "edit", Text: "/start", At: sampleTime, Message: 9, Skip: "a command was edited", User: 77},
	},
	"a group that moved, in the old": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"migrate_to_chat_id":-100}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", At: sampleTime, Message: 9, Skip: "a service message", From: -5, To: -100, User: 77},
	},
	"a group that moved, in the new": {
		`{"update_id":1,"message":{"message_id":9,` + inGroup + `,"migrate_from_chat_id":-4}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", At: sampleTime, Message: 9, Skip: "a service message", From: -4, To: -5, User: 77},
	},
	"a reaction": {
		`{"update_id":3,"message_reaction":{"chat":{"id":-5,"type":"group","title":"House"},"message_id":8,"user":{"id":77,"first_name":"Will"},"date":1780315200,` +
			`"old_reaction":[{"type":"emoji","emoji":"👀"}],"new_reaction":[{"type":"emoji","emoji":"👀"},{"type":"emoji","emoji":"👍"}]}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "reaction", Text: "👍", At: sampleTime, Message: 8, Quotes: 8, Suffix: ":reaction:3", User: 77},
	},
	"a reaction that was removed": {
		`{"update_id":3,"message_reaction":{"chat":{"id":-5,"type":"group","title":"House"},"message_id":8,"user":{"id":77,"first_name":"Will"},"date":1780315200,` +
			`"old_reaction":[{"type":"emoji","emoji":"👀"}],"new_reaction":[]}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "reaction", At: sampleTime, Message: 8, Quotes: 8, Suffix: ":reaction:3", Skip: "a reaction was removed", User: 77},
	},
	"the bot was added": {
		`{"update_id":3,"my_chat_member":{` + member + `,"old_chat_member":{"status":"left","user":{"id":42}},"new_chat_member":{"status":"member","user":{"id":42}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "membership", Text: "Will added the bot", At: sampleTime, Suffix: ":member:3", Present: "in", User: 77},
	},
	"the bot was removed": {
		`{"update_id":3,"my_chat_member":{` + member + `,"old_chat_member":{"status":"member","user":{"id":42}},"new_chat_member":{"status":"kicked","user":{"id":42}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "membership", Text: "Will removed the bot", At: sampleTime, Suffix: ":member:3", Present: "out", User: 77},
	},
	"the bot was made an administrator": {
		`{"update_id":3,"my_chat_member":{` + member + `,"old_chat_member":{"status":"member","user":{"id":42}},"new_chat_member":{"status":"administrator","user":{"id":42}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "membership", Text: "Will made the bot an administrator", At: sampleTime, Suffix: ":member:3", Present: "in", User: 77},
	},
	"the bot may do less": {
		`{"update_id":3,"my_chat_member":{` + member + `,"old_chat_member":{"status":"administrator","user":{"id":42}},"new_chat_member":{"status":"restricted","is_member":true,"user":{"id":42}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "membership", Text: "Will changed the bot's rights here", At: sampleTime, Suffix: ":member:3", User: 77},
	},
	"the bot is kept out": {
		`{"update_id":3,"my_chat_member":{` + member + `,"old_chat_member":{"status":"member","user":{"id":42}},"new_chat_member":{"status":"restricted","is_member":false,"user":{"id":42}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "membership", Text: "Will removed the bot", At: sampleTime, Suffix: ":member:3", Present: "out", User: 77},
	},
	"a user blocked the bot": {
		`{"update_id":3,"my_chat_member":{` + inDM + `,"old_chat_member":{"status":"member","user":{"id":42}},"new_chat_member":{"status":"kicked","user":{"id":42}}}}`,
		updateEffects{
			Chat: sampleDM, Author: sampleAuthor, Event: "membership", Text: "Will May removed the bot", At: sampleTime, Suffix: ":member:3", Present: "out",
			Skip: "a user started or blocked the bot", User: 77,
		},
	},
	"a button": {
		`{"update_id":3,"callback_query":{"id":"q1","from":{"id":77,"first_name":"Will"},"data":"yes","message":{"message_id":8,"date":1,"chat":{"id":-5,"type":"group","title":"House"}}}}`,
		updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Text: "yes", Message: 8, Quotes: 8, QuotesBot: true, Suffix: ":button:3", Callback: "q1", User: 77},
	},
	"a button of an old message": {
		`{"update_id":3,"callback_query":{"id":"q1","from":{"id":77,"first_name":"Will"},"message":{"message_id":8,"date":0,"chat":{"id":-5,"type":"group","title":"House"}}}}`,
		updateEffects{
			Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", Message: 8, Quotes: 8, QuotesBot: true, Suffix: ":button:3", Callback: "q1",
			Skip: "a button without data", User: 77,
		},
	},
	"a button outside": {
		`{"update_id":3,"callback_query":{"id":"q1","from":{"id":77},"data":"yes"}}`, updateEffects{UnreadableReason: "a button outside of any chat was pressed"},
	},
	"another kind":     {`{"update_id":3,"poll":{"id":"p"}}`, updateEffects{UnreadableReason: "a kind of update that this bridge did not request"}},
	"what is no JSON":  {`{"update_id":`, updateEffects{UnreadableReason: "the update cannot be read"}},
	"an empty message": {`{"update_id":3,"message":{"message_id":9,` + inGroup + `}}`, updateEffects{Chat: sampleGroup, Author: samplePlainAuthor, Event: "message", At: sampleTime, Message: 9, Skip: "a service message", User: 77}},
}

func TestParseUpdate(t *testing.T) {
	for name, c := range updateCases {
		t.Run(name, func(t *testing.T) {
			got := tell(c.raw)
			if strings.HasPrefix(got.UnreadableReason, c.want.UnreadableReason) {
				got.UnreadableReason = c.want.UnreadableReason
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
