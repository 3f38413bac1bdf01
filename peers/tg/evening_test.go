package tg_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-telegram/bot/models"
)

// TestGroup_AnEveningOfPerson plays behavior of people in a group that the hour does not cover,
// and compares the result with testdata/evening.golden, which a person has reviewed.
func TestGroup_AnEveningOfPerson(t *testing.T) {
	withModel(t, func(t *testing.T, h *fixture, m *scriptedModel) {
		p := &person{h: h, m: m, bot: h.api.Bot(), ann: h.api.User("Ann"), bob: h.api.User("Bob")}
		p.name, p.group = "@"+p.bot.Username, h.api.Supergroup(-100701, "House")
		m.play(p.eveningModel)
		sendsThings(p)
		answersQuestions(p)
		namesTheBot(p)
		refersToOthers(p)
		correctsAndWithdraws(p)
		says(p, p.name+" %", "yes", "no", "k", "👍", "🤔", "😡", "🙏", "??", "...", "haha", "good bot", "help", "nvm", "good morning")
		p.do("a message of the bot to reply to", p.say(p.ann, p.name+" hello"))
		for _, text := range []string{"👍", "ok", "why?", "👎", "wrong", "shorter please", "in German", "cool", "great, and the rest?"} {
			p.do("reply "+text, func() { p.h.api.Reply(p.last(), p.bob, text) })
		}
		p.do("the bot is removed", func() { h.api.Member(p.group, p.ann, "member", "left") })
		p.do("the bot is added again", func() { h.api.Member(p.group, p.ann, "left", "member") })
		p.do("after that", p.say(p.ann, p.name+" are you back?"))
		compareGolden(t, "testdata/evening.golden", []byte(p.noted.String()))
	})
}

// eveningModel is the script of the model.
func (p *person) eveningModel(role, prompt string) any {
	switch said := message(prompt); {
	case role == "tool":
		return "Noted."
	case strings.Contains(said, "ask which"):
		return "Got it. Which floor is it? I'll wait."
	case strings.Contains(said, "ask flat"):
		return "Please tell me which floor it is."
	case strings.Contains(said, "choose for"):
		return toolCall("chat_ask_choice", `{"question":"Heat or cool?","choices":["Heat","Cool"]}`)
	case strings.Contains(said, "remind me"):
		return toolCall("chat_remind", `{"when":"in 2 minutes","text":"tea"}`)
	case strings.Contains(said, "tea"):
		return "Tea time!"
	}
	return "I heard it."
}

// says lets a person say several things, in place of the sign % of a pattern.
func says(p *person, pattern string, list ...string) {
	for _, part := range list {
		text := strings.ReplaceAll(pattern, "%", part)
		p.do(text, p.say(p.bob, text))
	}
}

// sendsThings sends attachments before and after questions about them.
func sendsThings(p *person) {
	after := func(question string, wait time.Duration, m models.Message) func() {
		return func() {
			p.h.api.Say(p.group, p.ann, p.name+" "+question)
			p.h.pass(wait)
			m.Chat, m.From = p.group, &p.ann
			p.h.api.Post(m)
		}
	}
	from := func(name string) *models.MessageOrigin {
		return &models.MessageOrigin{Type: "hidden_user", MessageOriginHiddenUser: &models.MessageOriginHiddenUser{Type: "hidden_user", SenderUserName: name}}
	}
	p.do("/start in a group", p.say(p.ann, "/start"+p.name))
	p.do("a long text that the client splits", func() {
		p.h.api.Say(p.group, p.ann, p.name+" sum up: "+strings.Repeat("word ", 810))
		p.h.api.Say(p.group, p.ann, "its end")
	})
	p.do("three forwards after a comment", func() {
		p.h.api.Say(p.group, p.ann, p.name+" who is right?")
		for i, name := range []string{"Zed", "Yan", "Xin"} {
			p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Text: "opinion " + strconv.Itoa(i), ForwardOrigin: from(name)})
		}
	})
	p.do("a forward, then a typed question", func() {
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Text: "prices fall", ForwardOrigin: from("Zed")})
		p.h.pass(8 * time.Second)
		p.h.api.Say(p.group, p.ann, p.name+" is that so?")
	})
	p.do("a document after the question", after("what does it say?", 5*time.Second, models.Message{Document: &models.Document{FileID: "d", FileName: "lease.pdf"}}))
	p.do("a contact after the question", after("who is that?", 4*time.Second, models.Message{Contact: &models.Contact{PhoneNumber: "123", FirstName: "Zoe"}}))
	p.do("a poll after the question", after("your vote?", 7*time.Second, models.Message{Poll: &models.Poll{ID: "1", Question: "When?", Options: []models.PollOption{{Text: "Mon"}, {Text: "Tue"}}}}))
	p.do("dice after the question", after("beat this", time.Second, models.Message{Dice: &models.Dice{Emoji: "🎲", Value: 3}}))
	p.do("an album after the question", func() {
		p.h.api.Say(p.group, p.ann, p.name+" which one?")
		p.h.pass(3 * time.Second)
		p.h.api.Album(p.group, p.ann, "", "p1", "p2")
	})
}

// answersQuestions answers the bot in many ways.
func answersQuestions(p *person) {
	for _, c := range []struct {
		what string
		act  func()
	}{
		{"a voice message", p.post(models.Message{Voice: &models.Voice{FileID: "v", Duration: 3}})},
		{"a sticker", p.post(models.Message{Sticker: &models.Sticker{FileID: "s", Emoji: "👍"}})},
		{"a place", p.post(models.Message{Location: &models.Location{Latitude: 1, Longitude: 2}})},
		{"two fragments", func() {
			p.h.api.Say(p.group, p.ann, "the second")
			p.h.pass(time.Second)
			p.h.api.Say(p.group, p.ann, "or the third")
		}},
		{"Bob's reply", func() { p.h.api.Reply(p.last(), p.bob, "third") }},
		{"a thumb", func() { p.h.api.React(p.group, p.ann, p.last().ID, nil, "👍") }},
		{"a word to Bob", p.say(p.ann, "@bob knows it")},
	} {
		p.do("the bot asks", p.say(p.ann, p.name+" ask which"))
		p.do(c.what, c.act)
	}
	p.do("the bot asks without a question mark", p.say(p.ann, p.name+" ask flat"))
	p.do("an answer to that", p.say(p.ann, "the second"))
	p.do("the bot offers a choice", p.say(p.ann, p.name+" choose for me"))
	p.do("the choice is typed", p.say(p.ann, "cool"))
	p.do("the bot offers a choice", p.say(p.ann, p.name+" choose for me"))
	p.do("a button is pressed", func() { p.h.api.Press(p.last(), p.ann, p.last().ReplyMarkup.InlineKeyboard[0][0].CallbackData) })
	p.do("the bot offers a choice", p.say(p.ann, p.name+" choose for me"))
	p.do("none of them", p.say(p.ann, "neither, open the window"))
	p.do("a reminder is set", p.say(p.ann, p.name+" remind me of tea in 2 minutes"))
	p.do("it comes", func() { p.h.pass(3 * time.Minute) })
}

// namesTheBot writes the name in many ways.
func namesTheBot(p *person) {
	says(p, "%", p.name+"'s view?", "("+p.name+") hm?", "dear\n"+p.name+"\nhelp", "who is "+p.name, strings.ToUpper(p.name)+" LOUD",
		"cc "+p.name, "#hubbub_bot tag", "hubbub_bot: hi", "x"+p.name)
	p.do("the name in code", p.post(models.Message{Text: p.name, Entities: []models.MessageEntity{entity(p.name, p.name, models.MessageEntity{Type: "code"})}}))
	p.do("in the caption of a song", p.post(models.Message{Caption: p.name + " who sings?", Audio: &models.Audio{FileID: "a", Performer: "Nina", Title: "Sinnerman"}}))
	p.do("in the second caption of an album", func() {
		for _, caption := range []string{"", p.name + " this one?"} {
			p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, MediaGroupID: "g9", Caption: caption, Photo: []models.PhotoSize{{FileID: "p", FileUniqueID: "u"}}})
		}
	})
}

// refersToOthers quotes and comments.
func refersToOthers(p *person) {
	quote := func(of *models.Message, part, text string) {
		original := *of
		p.h.api.Post(models.Message{Chat: p.group, From: &p.ann, Text: text, ReplyToMessage: &original, Quote: &models.TextQuote{Text: part, IsManual: true}})
	}
	p.do("a part of the bot's message is quoted", func() { quote(p.last(), "heard", "what do you mean?") })
	p.do("a part of Bob's is", func() { quote(p.h.api.Say(p.group, p.bob, "A. B. C."), "B.", p.name+" is this so?") })
	news := models.Chat{ID: -10077, Type: "channel", Title: "News"}
	p.do("a comment under a post of the channel", func() {
		post := p.h.api.Post(models.Message{Chat: p.group, From: &models.User{ID: 777000, FirstName: "Telegram"}, SenderChat: &news, IsAutomaticForward: true, Text: "Long article"})
		p.h.pass(time.Minute)
		p.h.api.Reply(post, p.ann, p.name+" sum it up")
	})
	p.do("a story is answered", p.post(models.Message{Text: p.name + " nice?", ReplyToStory: &models.Story{ID: 4, Chat: p.group}}))
	p.do("Bob interrupts", func() {
		p.h.api.Say(p.group, p.ann, p.name)
		p.h.api.Say(p.group, p.bob, "lol")
		p.h.pass(time.Second)
		p.h.api.Say(p.group, p.ann, "when do we eat?")
	})
}

// correctsAndWithdraws adds, corrects and withdraws while the model works.
func correctsAndWithdraws(p *person) {
	p.do("a question is corrected", func() {
		p.h.api.Say(p.group, p.ann, p.name+" whats the tine")
		p.h.pass(time.Second)
		p.h.api.Say(p.group, p.ann, "*time")
	})
	p.m.slow(20 * time.Second)
	for _, then := range []string{" in German please", " never mind", " stop"} {
		p.do("while it works:"+then, func() {
			p.h.api.Say(p.group, p.ann, p.name+" write it")
			p.h.pass(15 * time.Second)
			p.h.api.Say(p.group, p.ann, p.name+then)
		})
	}
	p.do("an edit while it works", func() {
		q := p.h.api.Say(p.group, p.ann, p.name+" write it")
		p.h.pass(15 * time.Second)
		p.h.api.EditText(q, p.name+" write it in French")
	})
	p.m.slow(0)
	p.do("a second question without the name", func() {
		p.h.api.Say(p.group, p.ann, p.name+" weather today?")
		p.h.pass(30 * time.Second)
		p.h.api.Say(p.group, p.ann, "and tomorrow?")
	})
}
