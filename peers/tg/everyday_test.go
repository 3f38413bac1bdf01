package tg_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/bridge"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// entity returns an entity over the first occurrence of a part of a text.
func entity(text, part string, e models.MessageEntity) models.MessageEntity {
	before, _, found := strings.Cut(text, part)
	if !found {
		panic(part + " is not in " + text)
	}
	e.Offset, e.Length = units(before), units(part)
	return e
}

// units counts UTF-16 code units.
func units(s string) (n int) {
	for _, r := range s {
		if n++; r > 0xffff {
			n++
		}
	}
	return n
}

// TestMention_ByAnyMeansReachesAgent sends group messages that mean the bot, and some that do not, as text
// and as captions.
func TestMention_ByAnyMeansReachesAgent(t *testing.T) {
	link := func(url string) models.MessageEntity {
		return models.MessageEntity{Type: models.MessageEntityTypeTextLink, URL: url}
	}
	bare := models.MessageEntity{Type: models.MessageEntityTypeURL}
	withFixture(t, func(t *testing.T, h *fixture) {
		ann := h.api.User("Ann")
		bot := h.api.Bot()
		group, lead := h.api.Group(-5, "House"), h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(group, ann, "hello all")
		h.texts(group.ID, 0)
		h.assign(group.ID, "agent:lead")
		next(t, lead)
		tapped := func(u models.User) models.MessageEntity {
			return models.MessageEntity{Type: models.MessageEntityTypeTextMention, User: &u}
		}
		me := []string{"agent:lead"}
		for _, c := range []struct {
			text, part string
			entity     models.MessageEntity
			want       []string
		}{
			{"Hubbub, are we on for noon?", "Hubbub", tapped(bot), me},
			{"🙂🙂 what do you say, Hubbub", "Hubbub", tapped(bot), me},
			{"ask Helper what it costs", "Helper", link("tg://user?id=" + itoa(bot.ID)), me},
			{"how late is it, buddy?", "buddy", link("https://t.me/" + strings.ToUpper(bot.Username)), me},
			{"how late is it, pal?", "pal", link("http://telegram.me/" + bot.Username + "/"), me},
			{"and you, pal?", "pal", link("tg://resolve?domain=" + bot.Username), me},
			{"t.me/" + bot.Username + " what about Sunday", "t.me/" + bot.Username, bare, me},
			{"@HUBBUB_bot is it open", "@HUBBUB_bot", models.MessageEntity{Type: models.MessageEntityTypeMention}, me},
			{"请@hubbub_bot看看", "@hubbub_bot", models.MessageEntity{Type: models.MessageEntityTypeMention}, me},
			{"你好，＠lead你在吗？", "你在吗", models.MessageEntity{Type: models.MessageEntityTypeBold}, me},
			{"＠hubbub_bot 元気？", "元気", models.MessageEntity{Type: models.MessageEntityTypeBold}, me},
			{"はい ＠lead です", "＠lead", models.MessageEntity{Type: models.MessageEntityTypeCode}, nil},
			{"你好，@lead你在吗？", "你在吗", models.MessageEntity{Type: models.MessageEntityTypeBold}, me},
			{"Will, are we on?", "Will", tapped(h.api.User("Will")), []string{"user:1002"}},
			{"see the channel", "channel", link("https://t.me/kitchen_news"), nil},
			{"invite: here", "here", link("https://t.me/" + bot.Username + "?start=abc"), nil},
			{"Hubbub said so", "Hubbub said so", models.MessageEntity{Type: models.MessageEntityTypeBlockquote}, nil},
		} {
			m := models.Message{Chat: group, From: &ann, Text: c.text, Entities: []models.MessageEntity{entity(c.text, c.part, c.entity)}}
			h.api.Post(m)
			if got := next(t, lead); !slices.Equal(got.Mentions, c.want) {
				t.Errorf("%q mentions %q; want %q", c.text, got.Mentions, c.want)
			}
			m.Caption, m.CaptionEntities, m.Text, m.Entities = m.Text, m.Entities, "", nil
			m.Photo = []models.PhotoSize{{FileID: "p", FileUniqueID: "u", Width: 9, Height: 9}}
			h.api.Post(m)
			if got := next(t, lead); !slices.Equal(got.Mentions, c.want) {
				t.Errorf("the caption %q mentions %q; want %q", c.text, got.Mentions, c.want)
			}
		}
	})
}

// TestMention_InPollReachesAgent sends polls and checklists in which somebody typed the bot's name, and one
// forward, which is somebody else's.
func TestMention_InPollReachesAgent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann := h.api.User("Ann")
		group, lead := h.api.Group(-5, "House"), h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(group, ann, "hello all")
		h.texts(group.ID, 0)
		h.assign(group.ID, "agent:lead")
		next(t, lead)
		poll := func(question, option string) models.Message {
			return models.Message{Poll: &models.Poll{Question: question, Options: []models.PollOption{{Text: option}, {Text: "no"}}}}
		}
		list := func(title, task string) models.Message {
			return models.Message{Checklist: &models.Checklist{Title: title, Tasks: []models.ChecklistTask{{ID: 1, Text: task}}}}
		}
		forwarded := poll("@hubbub_bot when?", "Monday")
		forwarded.ForwardOrigin = &models.MessageOrigin{Type: "hidden_user", MessageOriginHiddenUser: &models.MessageOriginHiddenUser{SenderUserName: "Zed"}}
		story := models.Message{Story: &models.Story{ID: 4, Chat: models.Chat{ID: 9, Title: "Hubbub", Username: "hubbub_bot"}}}
		me := []string{"agent:lead"}
		for i, c := range []struct {
			sent models.Message
			want []string
		}{
			{poll("@hubbub_bot when do we eat?", "at six"), me},
			{poll("Who cooks?", "@Hubbub_Bot"), me},
			{poll("Who, @lead?", "Ann"), me},
			{list("For @hubbub_bot", "order flour"), me},
			{list("Today", "@lead: order flour"), me},
			{poll("When do we eat?", "at six"), nil},
			{forwarded, nil},
			{story, nil},
		} {
			c.sent.Chat, c.sent.From = group, &ann
			h.api.Post(c.sent)
			if got := next(t, lead); !slices.Equal(got.Mentions, c.want) {
				t.Errorf("%d: %q mentions %q; want %q", i, got.Text, got.Mentions, c.want)
			}
		}
	})
}

// TestFormatting_ReachesAgents checks what an agent reads of formatted messages.
func TestFormatting_ReachesAgents(t *testing.T) {
	struck := models.MessageEntity{Type: models.MessageEntityTypeStrikethrough}
	spoiler := models.MessageEntity{Type: models.MessageEntityTypeSpoiler}
	bold := models.MessageEntity{Type: models.MessageEntityTypeBold}
	code := models.MessageEntity{Type: models.MessageEntityTypeCode}
	quote := models.MessageEntity{Type: models.MessageEntityTypeBlockquote}
	folded := models.MessageEntity{Type: models.MessageEntityTypeExpandableBlockquote}
	pre := func(language string) models.MessageEntity {
		return models.MessageEntity{Type: models.MessageEntityTypePre, Language: language}
	}
	link := func(url string) models.MessageEntity {
		return models.MessageEntity{Type: models.MessageEntityTypeTextLink, URL: url}
	}
	type part struct {
		of string
		as models.MessageEntity
	}
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		ann := models.User{ID: dm.ID, FirstName: "Will"}
		for _, c := range []struct {
			text  string
			parts []part
			want  string
		}{
			{"milk, eggs, tofu", []part{{"eggs", struck}}, "milk, ~~eggs~~, tofu"},
			{"🥛 milk 🥚 eggs", []part{{" eggs", struck}}, "🥛 milk 🥚 ~~eggs~~"},
			{"he dies at the end", []part{{"dies", spoiler}}, "he ||dies|| at the end"},
			{"a b c", []part{{"a b", struck}, {"b", spoiler}, {"c", bold}}, "~~a ||b||~~ c"},
			{"run git status now", []part{{"git status", code}}, "run `git status` now"},
			{"type a`b", []part{{"a`b", code}}, "type `` a`b ``"},
			{"see: x := 1 ok?", []part{{"x := 1", pre("go")}}, "see: \n```go\nx := 1\n```\n ok?"},
			{"print(1)\nwhy?", []part{{"print(1)", pre("python")}}, "```python\nprint(1)\n```\nwhy?"},
			{"use ``` here\nok", []part{{"use ``` here", pre("")}}, "~~~\nuse ``` here\n~~~\nok"},
			{"we close\nat five\nis that so?", []part{{"we close\nat five", quote}}, "> we close\n> at five\nis that so?"},
			{"look: we close at five", []part{{"we close at five", folded}, {"five", struck}}, "look: \n> we close at ~~five~~"},
			{"one\ntwo", []part{{"one", quote}, {"two", folded}}, "> one\n> two"},
			{"read this first", []part{{"this", link("https://example.org/a_b")}}, "read this (https://example.org/a_b) first"},
			{"read example.org/x", []part{{"example.org/x", link("https://example.org/x/")}}, "read example.org/x"},
			{"ask Will", []part{{"Will", link("tg://user?id=77")}}, "ask Will"},
			{"bank.example", []part{{"bank.example", link("https://evil.example/")}}, "bank.example (https://evil.example/)"},
		} {
			m := models.Message{Chat: dm, From: &ann, Text: c.text}
			for _, p := range c.parts {
				m.Entities = append(m.Entities, entity(c.text, p.of, p.as))
			}
			h.api.Post(m)
			if got := next(t, lead); got.Text != c.want {
				t.Errorf("%q is read as %q; want %q", c.text, got.Text, c.want)
			}
		}
	})
}

// TestCommand_WithWordsIsQuestion checks that words after a command without arguments are passed
// on, and that courtesies change nothing.
func TestCommand_WithWordsIsQuestion(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann := h.api.User("Ann")
		group, lead := h.api.Group(-5, "House"), h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(group, ann, "hello all")
		h.texts(group.ID, 0)
		h.assign(group.ID, "agent:lead")
		next(t, lead)
		questions := []string{"/help me choose a laptop", "/status of my parcel?", "/who is coming on Sunday",
			"/agents in the film Heat", "/start with the kitchen, please", "/help@hubbub_bot with the tax form",
			"／help me choose a lamp", "/stop adding emoji to the list", "/resume from page 12", "/halt the music at ten\nand go on later"}
		for _, text := range questions {
			h.api.Say(group, ann, text)
			if got := next(t, lead); got.Text != text || !slices.Equal(got.Mentions, []string{"agent:lead"}) {
				t.Errorf("%q became %q for %q", text, got.Text, got.Mentions)
			}
		}
		h.texts(group.ID, 0)
		for _, text := range []string{"/help", "/help please", "/status@hubbub_bot", "/agents, thanks!", "/start ref_12", "/help @hubbub_bot",
			"/help bitte!", "/status por favor", "/help s'il te plaît", "/agents thanks a lot",
			"／help", "/help！"} {
			h.api.Say(group, ann, text)
		}
		h.pass(10 * time.Minute)
		if got := h.api.Texts(group.ID); len(got) != 12 || lead.Pending() != 0 {
			t.Errorf("%d events, answers %q", lead.Pending(), got)
		}
	})
}

// TestStopped_GroupAnswersMentionOnce checks what a stopped group says: one sentence, once after each
// stop, and only to messages for its agents.
func TestStopped_GroupAnswersMentionOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann := h.api.User("Ann")
		group, lead := h.api.Group(-5, "House"), h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(group, ann, "hello all")
		h.texts(group.ID, 0)
		h.assign(group.ID, "agent:lead")
		next(t, lead)
		reply(t, lead, group.ID, protocol.ChatReply{Text: "Hello."})
		h.texts(group.ID, 1)
		said := h.api.Messages(group.ID)[0]
		sentence := "This chat is stopped, so the agents don't see your message. Send /start to continue."
		for round, speak := range []func(){
			func() { h.api.Say(group, ann, "@hubbub_bot are you there?") },
			func() { h.api.Say(group, ann, "@lead are you there?") },
			func() { h.api.Reply(said, ann, "and now?") },
			func() { h.api.Say(group, ann, "/help me choose a laptop") },
			func() {
				h.api.Post(models.Message{Chat: group, From: &ann, Caption: "@Hubbub_Bot what is it?", Photo: []models.PhotoSize{{FileID: "p"}}})
			},
		} {
			h.api.Say(group, ann, "/stop")
			h.pass(time.Minute)
			next(t, lead)
			before := len(h.api.Texts(group.ID))
			h.api.Say(group, ann, "lunch?")
			h.pass(time.Minute)
			for range 3 {
				speak()
				h.pass(time.Minute)
			}
			if got := h.api.Texts(group.ID)[before:]; !slices.Equal(got, []string{sentence}) {
				t.Errorf("round %d: said %q", round, got)
			}
			h.api.Say(group, ann, "/start over, please")
			h.pass(time.Minute)
		}
		if got := h.api.Texts(group.ID); got[len(got)-1] != "This chat is running again. The agents see your messages." {
			t.Errorf("said at the end %q", got)
		}
	})
}

// TestCommand_SaysThatFileIsNotKept sends commands of the broker with files.
func TestCommand_SaysThatFileIsNotKept(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.start()
		photo := []models.PhotoSize{{FileID: "p", Width: 9, Height: 9}}
		for i, m := range []models.Message{
			{Caption: "/work fix this", Photo: photo},
			{Caption: "/work @lead translate it", Document: &models.Document{FileID: "d", FileName: "a.pdf"}},
			{Caption: "/ask @mia is this yours?", Voice: &models.Voice{FileID: "v"}},
			{Caption: "/done wi-abc", VideoNote: &models.VideoNote{FileID: "n"}},
			{Caption: "/help", Photo: photo},
		} {
			m.Chat, m.From = dm, &will
			h.api.Post(m)
			h.pass(time.Minute)
			want := strings.Fields(m.Caption)[0] + " takes only text, so the " +
				[]string{"photo", "document", "voice", "video note", "photo"}[i] + " was not passed on with it."
			if got := strings.Join(h.api.Texts(dm.ID), "\n"); !strings.Contains(got, want) {
				t.Errorf("%q: said %q", m.Caption, got)
			}
		}
	})
}

// TestCommand_KeepsTheFilesOfItsAlbum sends a command as the caption of an album. No agent gets any of the files.
func TestCommand_KeepsTheFilesOfItsAlbum(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		h.api.Album(dm, will, "/work fix these", "a", "b", "c")
		h.pass(time.Minute)
		want := "/work takes only text, so the files were not passed on with it. To show them to an agent, send them as a message."
		if got := h.api.Texts(dm.ID); len(got) != 2 || got[0] != want {
			t.Errorf("said %q", got)
		}
		h.api.Album(dm, will, "these", "d", "e")
		if got := next(t, lead); got.Text != "these" || len(got.Attachments) != 2 {
			t.Errorf("the agent got %+v", got)
		}
	})
}

// TestPeople_HaveTheirCurrentUsername mentions people who changed or removed their usernames, and a channel.
func TestPeople_HaveTheirCurrentUsername(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann, will, bob := h.api.User("Ann"), h.api.User("Will"), h.api.User("Bob")
		group := h.api.Supergroup(-1005, "House")
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		say := func(who models.User, text string) []string {
			h.api.Say(group, who, text)
			return next(t, lead).Mentions
		}
		ask := "who is it, @will @zack @bob or @news?"
		say(will, "hello")
		say(bob, "hello")
		if got := say(ann, ask); !slices.Equal(got, []string{"user:will", "role:zack", "user:bob", "role:news"}) {
			t.Errorf("at first %q are mentioned", got)
		}
		will.Username, bob.Username = "Zack", ""
		say(will, "I have another name")
		say(bob, "I have none")
		news := models.Chat{ID: -1006, Type: models.ChatTypeChannel, Title: "News", Username: "news"}
		h.api.Post(models.Message{Chat: group, From: &models.User{ID: 136817688, IsBot: true, FirstName: "Channel"},
			SenderChat: &news, Text: "all is well"})
		next(t, lead)
		if got := say(ann, ask); !slices.Equal(got, []string{"role:will", "user:zack", "role:bob", "role:news"}) {
			t.Errorf("at last %q are mentioned", got)
		}
	})
}

// TestAsk_RefusesQuestionThatIsTooLong checks that no part of a question is left out.
func TestAsk_RefusesQuestionThatIsTooLong(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.start()
		for length, want := range map[int]string{
			2000: "Work needs the collaboration broker",
			2001: "Your question has 2001 characters, and at most 2000 can be asked.",
		} {
			before := len(h.api.Texts(dm.ID))
			h.api.Say(dm, will, "/ask @lead "+strings.Repeat("ü", length))
			h.pass(time.Minute)
			if got := strings.Join(h.api.Texts(dm.ID)[before:], " | "); !strings.HasPrefix(got, want) {
				t.Errorf("%d characters: said %q", length, got)
			}
		}
	})
}

// TestMessage_SaysTheZoneOfItsChat checks the zones of a direct chat, a group, and a chat without one.
func TestMessage_SaysTheZoneOfItsChat(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		ann, bob := h.api.User("Ann"), h.api.User("Bob")
		h.opts.Zones = bridge.Zones{itoa(ann.ID): "Asia/Tokyo", "-1005": "America/Bogota"}
		h.startSpawner("agent:lead")
		lead := h.bus.Join(t, "agent:lead", "agent:lead")
		h.start()
		for _, c := range []struct {
			chat models.Chat
			want string
		}{{h.api.DM(ann), "Asia/Tokyo"}, {h.api.Supergroup(-1005, "House"), "America/Bogota"}, {h.api.DM(bob), ""}} {
			h.api.Say(c.chat, ann, "hello")
			if got := next(t, lead).Chat.TimeZone; got != c.want {
				t.Errorf("the zone of %d is %q; want %q", c.chat.ID, got, c.want)
			}
		}
	})
}
