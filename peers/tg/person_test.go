package tg_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"
)

// A person acts in a group like a user, one step after another, and records what the model
// receives and what the group is shown.
type person struct {
	h        *fixture
	m        *scriptedModel
	group    models.Chat
	bot      models.User
	name     string // of the bot, with its sign
	ann, bob models.User
	noted    strings.Builder
}

// fenced matches a part of a message in a prompt.
var fenced = regexp.MustCompile(`(?s)<<\S+\n(.*?)\n\S+>>`)

// random matches identifiers that differ in each run.
var random = regexp.MustCompile(`\b(msg_|r-)[0-9A-Za-z]{10,}`)

// message returns the parts of the message in a prompt, shortened.
func message(prompt string) string {
	prompt = random.ReplaceAllString(prompt, "${1}ID")
	if _, parts, found := strings.Cut(prompt, "\nMESSAGE\n"); found {
		var list []string
		for _, part := range fenced.FindAllStringSubmatch(parts, -1) {
			list = append(list, part[1])
		}
		prompt = strings.Join(list, " | ")
	}
	if len(prompt) > 120 {
		prompt = strings.ToValidUTF8(prompt[:120], "") + "…"
	}
	return prompt
}

// answer is the script of the model.
func (p *person) answer(_, prompt string) any {
	said := message(prompt)
	switch {
	case strings.Contains(said, "ask me"):
		return "Heat or cool?"
	case strings.Contains(said, "long story"):
		return strings.Repeat("Once upon a time there was a bot. ", 300)
	case strings.Contains(said, "table"):
		return "| a | b |\n|---|---|\n| 1~2 | 3*4*5 |"
	}
	return "I heard it."
}

// do does one thing and notes what follows.
func (p *person) do(what string, act func()) {
	before := len(p.h.shows(p.group.ID))
	p.m.take()
	act()
	p.h.pass(45 * time.Second)
	fmt.Fprintf(&p.noted, "# %s\n", what)
	for _, prompt := range p.m.take() {
		fmt.Fprintf(&p.noted, "given: %q\n", message(prompt))
	}
	shown := p.h.shows(p.group.ID)
	for _, text := range shown[min(before, len(shown)):] {
		fmt.Fprintf(&p.noted, "shown: %q\n", message(text))
	}
}

func (p *person) say(who models.User, text string) func() {
	return func() { p.h.api.Say(p.group, who, text) }
}

func (p *person) post(m models.Message) func() {
	m.Chat = p.group
	if m.From == nil {
		m.From = &p.ann
	}
	return func() { p.h.api.Post(m) }
}

// last returns the newest message from the bot.
func (p *person) last() *models.Message {
	all := p.h.api.Messages(p.group.ID)
	return all[len(all)-1]
}

// TestGroup_AnHourOfPerson plays two people in a group and compares the result with
// testdata/hour.golden, which a person has reviewed.
func TestGroup_AnHourOfPerson(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		p := &person{h: h, m: m, bot: h.api.Bot(), ann: h.api.User("Ann"), bob: h.api.User("Bob")}
		p.name, p.group = "@"+p.bot.Username, h.api.Supergroup(-100700, "House")
		m.play(p.answer)
		talk(p)
		commandsAndFiles(p)
		changes(p)
		stopsAndNames(p)
		compareGolden(t, "testdata/hour.golden", []byte(p.noted.String()))
	})
}

// talk mentions, answers and thanks.
func talk(p *person) {
	p.do("the bot is added", func() { p.h.api.Member(p.group, p.ann, "left", "member") })
	p.do("hello everyone", p.say(p.ann, "hello everyone"))
	p.do("mention alone", p.say(p.ann, p.name))
	p.do("hi @bot", p.say(p.ann, "hi "+p.name))
	p.do("mention, then question", func() {
		p.h.api.Say(p.group, p.ann, p.name)
		p.h.pass(3 * time.Second)
		p.h.api.Say(p.group, p.ann, "when do we eat?")
	})
	p.do("question, then mention", func() {
		p.h.api.Say(p.group, p.ann, "when do we eat?")
		p.h.pass(time.Second)
		p.h.api.Say(p.group, p.ann, p.name)
	})
	p.do("reply to the bot", func() { p.h.api.Reply(p.last(), p.ann, "and on Sunday?") })
	p.do("thanks", p.say(p.ann, "thanks!"))
	p.do("reply thanks to bot", func() { p.h.api.Reply(p.last(), p.ann, "thank you ❤️") })
	p.do("thumb on the bot's message", func() { p.h.api.React(p.group, p.ann, p.last().ID, nil, "👍") })
	p.do("ask me", p.say(p.ann, p.name+" ask me"))
	p.do("bob chats between", p.say(p.bob, "lol"))
	p.do("cool", p.say(p.ann, "cool"))
	p.do("ask me again", p.say(p.ann, p.name+" ask me"))
	p.do("bob answers in Ann's place", p.say(p.bob, "heat!"))
	p.do("ann: Bob is right", p.say(p.ann, "what Bob says"))
}

// commandsAndFiles sends commands, and files with and without them.
func commandsAndFiles(p *person) {
	photo := []models.PhotoSize{{FileID: "p", FileUniqueID: "pu", Width: 90, Height: 90, FileSize: 100}}
	p.do("/help", p.say(p.ann, "/help"))
	p.do("/help@bot", p.say(p.bob, "/help"+p.name))
	p.do("/help with words", p.say(p.ann, "/help me cook"))
	p.do("/start", p.say(p.ann, "/start"))
	p.do("/who", p.say(p.ann, "/who"))
	p.do("/work text", p.say(p.ann, "/work paint the fence"))
	p.do("/work with photo", p.post(models.Message{Caption: "/work fix this", Photo: photo}))
	p.do("unknown command", p.say(p.ann, "/weather Rome"))
	p.do("photo without caption", p.post(models.Message{Photo: photo}))
	p.do("then what is it", p.say(p.ann, p.name+" what is on it?"))
	p.do("photo with mention caption", p.post(models.Message{Caption: p.name + " what is this?", Photo: photo, CaptionEntities: []models.MessageEntity{{Type: "mention", Offset: 0, Length: len(p.name)}}}))
	p.do("sticker", p.post(models.Message{Sticker: &models.Sticker{FileID: "s", Emoji: "😂"}}))
	p.do("sticker as reply to the bot", func() {
		l := *p.last()
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Sticker: &models.Sticker{FileID: "s", Emoji: "😂"}, ReplyToMessage: &l})
	})
	p.do("voice as reply to the bot", func() {
		l := *p.last()
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Voice: &models.Voice{FileID: "v", Duration: 4}, ReplyToMessage: &l})
	})
}

// changes edits, deletes, forwards, and sends messages without text.
func changes(p *person) {
	p.do("edit of a question", func() {
		q := p.h.api.Say(p.group, p.ann, p.name+" what is 2+2")
		p.h.pass(20 * time.Second)
		p.h.api.EditText(q, p.name+" what is 2+3")
	})
	p.do("edit within window", func() {
		q := p.h.api.Say(p.group, p.ann, p.name+" what is 7+2")
		p.h.pass(time.Second)
		p.h.api.EditText(q, p.name+" what is 7+3")
	})
	p.do("edit adds mention", func() {
		q := p.h.api.Say(p.group, p.ann, "what is 9+9")
		p.h.pass(20 * time.Second)
		p.h.api.EditText(q, "what is 9+9 "+p.name)
	})
	p.do("delete", func() {
		q := p.h.api.Say(p.group, p.ann, p.name+" forget it")
		p.h.pass(500 * time.Millisecond)
		p.h.api.Delete(q)
	})
	p.do("forward with comment", func() {
		p.h.api.Say(p.group, p.ann, p.name+" is this true?")
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Text: "The shop closes", ForwardOrigin: &models.MessageOrigin{Type: "user", MessageOriginUser: &models.MessageOriginUser{Type: "user", SenderUser: p.bob}}})
	})
	p.do("reply to Bob with mention", func() {
		b := p.h.api.Say(p.group, p.bob, "the shop closes at five")
		p.h.api.Reply(b, p.ann, p.name+" is that so?")
	})
	p.do("poll", p.post(models.Message{Poll: &models.Poll{ID: "1", Question: "When?", Options: []models.PollOption{{Text: "Mon"}, {Text: "Tue"}}}}))
	p.do("location with mention before", func() {
		p.h.api.Say(p.group, p.ann, p.name+" how far is it?")
		p.h.pass(time.Second)
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Location: &models.Location{Latitude: 52.5, Longitude: 13.25}})
	})
	p.do("pin", func() {
		pinned := *p.last()
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, PinnedMessage: &models.MaybeInaccessibleMessage{Type: models.MaybeInaccessibleMessageTypeMessage, Message: &pinned}})
	})
	p.do("title", p.post(models.Message{NewChatTitle: "Home"}))
	p.do("new member", p.post(models.Message{NewChatMembers: []models.User{p.bob}}))
}

// stopsAndNames stops the chat and the agent, and names it in several ways.
func stopsAndNames(p *person) {
	p.do("long story", p.say(p.ann, p.name+" tell a long story"))
	p.do("table", p.say(p.ann, p.name+" make a table"))
	p.do("stop word to bot", p.say(p.ann, p.name+" stop"))
	p.do("bare stop", p.say(p.ann, "stop"))
	p.do("/stop", p.say(p.ann, "/stop"))
	p.do("mention while stopped", p.say(p.ann, p.name+" there?"))
	p.do("mention while stopped again", p.say(p.bob, p.name+" there?"))
	p.do("/start over", p.say(p.ann, "/start"))
	p.do("struck words", func() {
		t := p.name + " buy milk eggs"
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Text: t, Entities: []models.MessageEntity{{Type: "mention", Length: len(p.name)}, entity(t, "milk", models.MessageEntity{Type: "strikethrough"})}})
	})
	p.do("text mention", func() {
		t := "Hubbub, you there?"
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Text: t, Entities: []models.MessageEntity{entity(t, "Hubbub", models.MessageEntity{Type: "text_mention", User: &p.bot})}})
	})
	p.do("name without sign", p.say(p.ann, "Hubbub, are you there?"))
	p.do("other bot's command", p.say(p.ann, "/ban@other_bot Bob"))
	p.do("mention of Bob", p.say(p.ann, "@bob are you coming?"))
	p.do("mention of both", p.say(p.ann, "@bob and "+p.name+" who comes?"))
	p.do("in Russian", p.say(p.ann, p.name+" который час?"))
	p.do("emoji only with mention", p.say(p.ann, p.name+" 🤔"))
	p.do("question mark only", p.say(p.ann, p.name+" ?"))
	p.do("ok with mention", p.say(p.ann, p.name+" ok"))
	p.do("go away", p.say(p.ann, p.name+" go away"))
	p.do("after leaving", p.say(p.ann, "finally quiet"))
	p.do("come back", p.say(p.ann, p.name+" come back please"))
	p.do("anonymous admin", p.post(models.Message{From: &models.User{ID: 1087968824, IsBot: true, FirstName: "Group", Username: "GroupAnonymousBot"}, SenderChat: &p.group, Text: p.name + " hello from admin"}))
	p.do("another bot mentions", p.post(models.Message{From: &models.User{ID: 77, IsBot: true, FirstName: "Other", Username: "other_bot"}, Text: p.name + " hello from a bot"}))
	p.do("same question twice", func() {
		p.h.api.Say(p.group, p.ann, p.name+" is it on?")
		p.h.pass(10 * time.Second)
		p.h.api.Say(p.group, p.ann, p.name+" is it on?")
	})
}
