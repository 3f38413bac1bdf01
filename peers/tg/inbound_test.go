package tg_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/peers/bridge"
	"hubbub/peers/store"
	"hubbub/peers/store/storetest"
	"hubbub/peers/tg/tgtest"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// states counts the stored updates by state.
func (h *fixture) states() map[string]int {
	h.t.Helper()
	out := map[string]int{}
	type row struct {
		state string
		n     int
	}
	for _, r := range allRows(h, func(r *row) []any { return []any{&r.state, &r.n} },
		`SELECT state, count(*) FROM updates GROUP BY state`) {
		out[r.state] = r.n
	}
	return out
}

func allRows[T any](h *fixture, columns func(*T) []any, query string) []T {
	h.t.Helper()
	rows, err := store.ReadAll(h.t.Context(), h.db, columns, query)
	if err != nil {
		h.t.Fatal(err)
	}
	return rows
}

// skipped returns the reasons why updates were not delivered.
func (h *fixture) skipped() []string {
	h.t.Helper()
	return allRows(h, store.Scalar[string], `SELECT reason FROM updates WHERE state <> 'done' ORDER BY seq`)
}

func TestUpdates_AreIdentifiedByID(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Say(dm, will, "first")
		h.texts(dm.ID, 0)
		h.assign(dm.ID, "agent:lead")
		// The numbers restart far below, and one is repeated.
		h.api.RestartUpdateIDs(3)
		h.api.Say(dm, will, "second")
		h.pass(time.Minute)
		raw := json.RawMessage(`{"update_id":3,"message":{"message_id":2,"date":1,"chat":{"id":1001,"type":"private"},"from":{"id":1001,"first_name":"Will"},"text":"second"}}`)
		h.api.InjectRaw(3, raw)
		h.pass(time.Minute)
		h.api.Say(dm, will, "third")
		for _, want := range []string{"first", "second", "third"} {
			if got := next(h.t, lead); got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		}
		h.pass(time.Minute)
		if lead.Pending() != 0 || h.api.Pending() != 0 {
			t.Errorf("%d more deliveries, %d updates unconfirmed", lead.Pending(), h.api.Pending())
		}
		// Two days later the same number is another update.
		if err := storetest.Exec(h.db, `UPDATE updates SET received_at = received_at - ?`, (49 * time.Hour).Microseconds()); err != nil {
			t.Fatal(err)
		}
		h.api.RestartUpdateIDs(3)
		h.api.Say(dm, will, "fourth")
		if got := next(h.t, lead); got.Text != "fourth" {
			t.Errorf("got %q", got.Text)
		}
	})
}

func TestStart_DropsNothing(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		for _, text := range []string{"while", "the bridge", "was away"} {
			h.api.Say(dm, will, text)
		}
		h.start()
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.pass(time.Second)
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start() // restart with everything stored and no agent assigned
		h.assign(dm.ID, "agent:lead")
		for _, want := range []string{"while", "the bridge", "was away"} {
			if got := next(h.t, lead); got.Text != want {
				t.Errorf("got %q, want %q", got.Text, want)
			}
		}
	})
}

func TestAdmission_NobodyByDefault(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, willDM := h.dm("Will")
		ann, annDM := h.dm("Ann")
		team := h.api.Group(-10, "Team")
		other := h.api.Group(-11, "Other")
		h.opts.AllowAll, h.opts.AllowUsers, h.opts.AllowChats = false, []int64{will.ID}, []int64{team.ID}
		system := h.bus.Join(h.t, protocol.PeerSystem, "system:*")
		h.start()
		h.api.Say(willDM, will, "admitted by user")
		h.api.Say(annDM, ann, "not admitted")
		h.api.Say(team, ann, "admitted by chat")
		h.api.Say(other, will, "the user's admission does not count here")
		h.api.Post(models.Message{Chat: annDM, From: &ann, Text: "forwarded", ForwardOrigin: &models.MessageOrigin{
			Type: models.MessageOriginTypeUser, MessageOriginUser: &models.MessageOriginUser{Type: models.MessageOriginTypeUser, SenderUser: will},
		}})
		h.api.Say(annDM, ann, "/start")
		h.pass(10 * time.Second)
		var asked []protocol.Topic
		for system.Pending() > 0 {
			var r protocol.SpawnRequest
			if err := system.Next(t).Decode(&r); err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(asked, r.Topic) {
				asked = append(asked, r.Topic)
			}
		}
		slices.Sort(asked)
		if want := []protocol.Topic{"tg:-10", topic(will.ID)}; !slices.Equal(asked, want) {
			t.Errorf("agents were asked for %v, want %v", asked, want)
		}
		if got := h.texts(annDM.ID, 1); !strings.Contains(got[0], itoa(ann.ID)) || !strings.Contains(got[0], "/pair") {
			t.Errorf("Ann reads %q", got)
		}
		if got := h.skipped(); len(got) != 4 {
			t.Errorf("the reasons are %q", got)
		}
		if r := system.SendAs(t, protocol.PeerSystem, topic(annDM.ID), protocol.TypeRouteAssigned, protocol.RouteAssigned{Agent: "agent:x"}); r.DeliveredTo != 1 {
			t.Logf("a route for a stranger's chat: %+v", r)
		}
	})
}

func TestPairing(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		mallory, malloryDM := h.dm("Mallory")
		team := h.api.Group(-10, "Team")
		h.opts.AllowAll = false
		h.start()
		code := func() string {
			c, err := bridge.NewCode(t.Context(), time.Hour, h.db)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		first, second, third := code(), code(), code()
		for i := range 8 {
			h.api.Say(malloryDM, mallory, "/pair WRONG-"+itoa(int64(i)))
		}
		h.api.Say(malloryDM, mallory, "/pair "+first) // too late: there were too many guesses
		h.texts(malloryDM.ID, 5)
		h.api.Say(dm, will, "/pair "+strings.ToLower(strings.ReplaceAll(first, "-", " ")))
		if got := h.texts(dm.ID, 1); !strings.Contains(got[0], "now have access") {
			t.Errorf("Will reads %q", got)
		}
		h.api.Say(team, will, "/pair@hubbub_bot "+first) // already used
		h.api.Say(team, will, "/start "+second)
		if got := h.texts(team.ID, 2); !strings.Contains(got[0], "isn't valid") || !strings.Contains(got[1], "now has access") {
			t.Errorf("the group reads %q", got)
		}
		if err := storetest.Exec(h.db, `UPDATE bridge_codes SET expires_at = 1; UPDATE bridge_guesses SET at = 1`); err != nil {
			t.Fatal(err)
		}
		h.api.Say(malloryDM, mallory, "/pair "+third) // expired
		if got := h.texts(malloryDM.ID, 6); !strings.Contains(got[5], "isn't valid") {
			t.Errorf("Mallory reads %q", got)
		}
		list, err := bridge.Admissions(t.Context(), h.db)
		if err != nil || len(list) != 2 || list[0].ID != bridge.Account(itoa(will.ID)) || list[1].ID != bridge.Account(itoa(team.ID)) || list[1].Kind != "chat" {
			t.Errorf("%+v, %v", list, err)
		}
		if ok, err := bridge.Revoke(t.Context(), h.db, itoa(will.ID)); !ok || err != nil {
			t.Error("revoking:", ok, err)
		}
		h.api.Say(dm, will, "am I in?")
		h.pass(5 * time.Second)
		if got := h.skipped(); !strings.Contains(got[len(got)-1], "not admitted") {
			t.Errorf("the reasons are %q", got)
		}
	})
}

// TestReaction_WaitsForMessage checks a reaction to a message whose number the bridge does not
// know yet.
func TestReaction_WaitsForMessage(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will := h.api.User("Will")
		team := h.api.Group(-10, "Team")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Member(team, will, tgtest.StatusLeft, tgtest.StatusMember)
		h.pass(time.Second)
		h.assign(team.ID, "agent:lead")
		m := h.api.Say(team, will, "@lead shall you deploy?")
		next(t, lead)
		next(t, lead)
		shown := make(chan struct{})
		h.api.Fail(tgtest.Fault{Method: "sendMessage", Hold: shown})
		lead.Send(t, "tg:-10", protocol.TypeTGReply, protocol.ChatReply{Text: "Shall I?"})
		h.pass(time.Second)
		h.api.React(team, will, m.ID+1, nil, "👍")
		h.pass(time.Second)
		close(shown)
		h.texts(team.ID, 1)
		if c := next(t, lead); c.Event != protocol.EventReaction || c.ReplyTo == nil || c.ReplyTo.Author != "agent:lead" {
			t.Errorf("it is %+v about %+v", c, c.ReplyTo)
		}
	})
}

func TestKindsOfUpdates(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will := h.api.User("Will")
		ann := h.api.User("Ann")
		team := h.api.Group(-10, "Team")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		h.api.Member(team, will, tgtest.StatusLeft, tgtest.StatusMember)
		h.pass(time.Second)
		h.assign(team.ID, "agent:lead")
		m := h.api.Say(team, will, "@lead what is up? cc @ann @backend-agents @hubbub_bot bob@lead.example")
		h.api.EditText(m, "@lead what is up now?")
		lead.Send(t, "tg:-10", protocol.TypeTGReply, protocol.ChatReply{Text: "all is well", InReplyTo: "tg:123456:-10:1", Buttons: []protocol.Button{{Text: "Seven", Value: "button-7"}}})
		h.texts(team.ID, 1)
		sent := h.api.Calls("sendMessage")[0].Message
		h.api.React(team, will, sent.ID, nil, "👍")
		h.api.React(team, will, sent.ID, []string{"👍"}, "👍", "❤")
		h.api.React(team, will, sent.ID, []string{"👍"})
		h.api.Reply(sent, will, "good")
		h.api.Reply(m, ann, "indeed")
		h.api.Press(sent, will, "button-7")
		h.api.Post(models.Message{Chat: team, From: &will, Location: &models.Location{Latitude: 52.5, Longitude: 13.25}})
		h.api.Post(models.Message{Chat: team, From: &will, NewChatMembers: []models.User{ann}})
		h.api.Post(models.Message{Chat: team, From: &will, NewChatTitle: "Team 2"})
		h.api.Post(models.Message{Chat: team, SenderChat: &models.Chat{ID: -10, Type: models.ChatTypeGroup, Title: "Team"}, From: &models.User{ID: 1087968824, IsBot: true, FirstName: "Group"}, Text: "anonymous"})
		h.api.Inject(&models.Update{Message: &models.Message{ID: 99, Chat: team, From: &will, Text: "/deploy@other_bot now"}})

		type seen struct{ event, text, signal string }
		var got []seen
		var all []protocol.ChatMessage
		for range 13 {
			c := next(t, lead)
			all = append(all, c)
			got = append(got, seen{c.Event, c.Text, c.Signal})
		}
		want := []seen{
			{"membership", "Will added the bot", ""},
			{"message", "@lead what is up? cc @ann @backend-agents @hubbub_bot bob@lead.example", ""},
			{"edit", "@lead what is up now?", ""},
			{"reaction", "👍", "agree"}, {"reaction", "❤", ""}, {"delete", "", ""},
			{"message", "good", ""}, {"message", "indeed", ""}, {"message", "button-7", ""},
			{"message", "[location: 52.5, 13.25]", ""}, {"membership", "Ann joined", ""}, {"status", "[new title of the chat: Team 2]", ""},
			{"message", "anonymous", ""},
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
		if m, want := all[1].Mentions, []string{"agent:lead", "role:ann", "role:backend-agents"}; !slices.Equal(m, want) {
			t.Errorf("mentions %q, want %q (Ann said nothing yet, so she is not known as a person)", m, want)
		}
		if all[2].SourceID != all[1].SourceID || all[2].Sequence <= all[1].Sequence {
			t.Errorf("the edit is %s/%d of %s/%d", all[2].SourceID, all[2].Sequence, all[1].SourceID, all[1].Sequence)
		}
		if r := all[3].ReplyTo; r == nil || r.Author != "agent:lead" || all[3].SourceID == r.SourceID {
			t.Errorf("the reaction is %+v about %+v", all[3].SourceID, r)
		}
		if all[5].SourceID != all[3].SourceID || all[5].ReplyTo != nil {
			t.Errorf("the reaction that was taken back is %+v", all[5])
		}
		if r := all[6].ReplyTo; r == nil || r.Author != "agent:lead" {
			t.Errorf("the answer to the agent quotes %+v", r)
		}
		if r := all[7].ReplyTo; r == nil || r.Author != "user:will" {
			t.Errorf("the answer to a person quotes %+v", r)
		}
		if a := all[12].Author; a.ID != "-10" || a.Kind != "human" {
			t.Errorf("the anonymous author is %+v", a)
		}
		if c := all[0].Chat; c.ID != "-10" || c.Kind != "channel" || c.Title != "Team" {
			t.Errorf("the chat is %+v", c)
		}
		if c := next(t, lead); c.Text != "/deploy@other_bot now" {
			t.Errorf("another bot's command became %q", c.Text)
		}
		h.pass(time.Second) // the press is answered outside of the queue
		if n := len(h.api.Calls("answerCallbackQuery")); n != 1 {
			t.Errorf("the button was answered %d times", n)
		}
	})
}

func TestAlbum_IsOneEvent(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.opts.FilesURL = "https://files.example/"
		h.start()
		h.api.Say(dm, will, "before")
		next := func() protocol.ChatMessage { return next(t, lead) }
		h.texts(dm.ID, 0)
		h.assign(dm.ID, "agent:lead")
		h.api.Album(dm, will, "three pictures", "a", "b", "c")
		h.api.Say(dm, will, "after")
		h.api.Post(models.Message{Chat: dm, From: &will, Document: &models.Document{FileID: "d", FileName: "plan.pdf", MimeType: "application/pdf", FileSize: 7}})
		if got := next(); got.Text != "before" {
			t.Errorf("got %q", got.Text)
		}
		album := next()
		if album.Text != "three pictures" || len(album.Attachments) != 3 {
			t.Errorf("the album is %+v", album)
		}
		if got := next(); got.Text != "after" {
			t.Errorf("got %q", got.Text)
		}
		doc := next()
		if a := doc.Attachments; len(a) != 1 || a[0].Kind != "document" || a[0].Name != "plan.pdf" || a[0].Size != 7 ||
			!strings.HasPrefix(a[0].Ref, "https://files.example/telegram-files/") {
			t.Errorf("the document is %+v", a)
		}
	})
}

// TestAlbum_EditIsEditOfAlbum edits each message of an album, before and after it is delivered,
// even after a restart. The agent gets all files, all captions and one sourceId.
func TestAlbum_EditIsEditOfAlbum(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.opts.FilesURL = "https://files.example/"
		h.start()
		h.api.Say(dm, will, "before")
		h.pass(time.Second)
		h.assign(dm.ID, "agent:lead")
		next(t, lead)
		files := func(m *protocol.ChatMessage) (refs []string) {
			for _, a := range m.Attachments {
				refs = append(refs, a.Ref)
			}
			return refs
		}
		first := h.api.Album(dm, will, "thre pictures", "a", "b", "c")
		h.pass(time.Second)
		h.api.EditText(first[0], "three pictures")
		h.pass(time.Second) // it continues to wait
		h.api.EditText(first[1], "the second for @ann")
		other := *first[2]
		other.Photo = []models.PhotoSize{{FileID: "d", FileUniqueID: "ud", Width: 9, Height: 9}}
		h.api.Inject(&models.Update{EditedMessage: &other})
		whole := next(t, lead)
		if whole.Event != protocol.EventMessage || whole.Text != "[file 1] three pictures\n[file 2] the second for @ann" || len(whole.Attachments) != 3 ||
			!slices.Equal(whole.Mentions, []string{"role:ann"}) {
			t.Fatalf("the album is %+v", whole)
		}
		kept := files(&whole)
		h.api.EditText(first[1], "")
		late := next(t, lead)
		if late.Event != protocol.EventEdit || late.SourceID != whole.SourceID || late.Text != "three pictures" || !slices.Equal(files(&late), kept) || len(late.Mentions) != 0 {
			t.Errorf("an edit after it was passed on is %+v", late)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.api.EditText(first[2], "the third")
		again := next(t, lead)
		if again.SourceID != whole.SourceID || again.Text != "[file 1] three pictures\n[file 3] the third" || len(again.Attachments) != 3 || again.Attachments[2].Ref == kept[2] {
			t.Errorf("the next edit is %+v", again)
		}
		second := h.api.Album(dm, will, "another", "e", "f")
		if got := next(t, lead); got.SourceID == whole.SourceID || got.Text != "another" || len(got.Attachments) != 2 {
			t.Errorf("the next album is %+v", got)
		}
		h.api.EditText(second[0], "the other")
		if got := next(t, lead); got.Text != "the other" || len(got.Attachments) != 2 {
			t.Errorf("an edit of its first message is %+v", got)
		}
		alone := *second[0]
		alone.ID, alone.MediaGroupID = 900, "never seen"
		h.api.Inject(&models.Update{EditedMessage: &alone})
		if got := next(t, lead); got.Event != protocol.EventEdit || !strings.HasSuffix(got.SourceID, ":900") || got.Text != "another" || len(got.Attachments) != 1 {
			t.Errorf("an edit in an album that never came is %+v", got)
		}
		h.api.Post(models.Message{Chat: dm, From: &will, MediaGroupID: "album-e", Caption: "too late", Photo: alone.Photo})
		if got := next(t, lead); got.Event != protocol.EventMessage || got.Text != "too late" || len(got.Attachments) != 1 {
			t.Errorf("a picture that came too late is %+v", got)
		}
	})
}

func TestForumTopics(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will := h.api.User("Will")
		forum := h.api.Forum(-100500, "House")
		garden := h.api.Topic(forum, "Garden")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		inTopic := h.api.SayIn(forum, garden, will, "in the garden")
		inGeneral := h.api.Say(forum, will, "in general")
		h.pass(time.Second)
		h.assign(forum.ID, "agent:lead")
		if made := next(t, lead); made.Event != protocol.EventStatus || made.Text != "[new topic: Garden]" {
			t.Errorf("the topic began with %+v", made)
		}
		d := lead.NextOf(t, protocol.TypeTGMessage)
		byID := d.Message.MessageID // an agent may also refer to a message by this ID
		var a protocol.ChatMessage
		if err := d.Decode(&a); err != nil {
			t.Fatal(err)
		}
		b := next(t, lead)
		if a.Chat.Kind != "thread" || a.Chat.ThreadID != itoa(int64(garden)) || a.ReplyTo != nil {
			t.Errorf("the topic's message is %+v %+v", a.Chat, a.ReplyTo)
		}
		if b.Chat.Kind != "channel" || b.Chat.ThreadID != "1" {
			t.Errorf("General's message is %+v", b.Chat)
		}
		for _, reply := range []protocol.ChatReply{
			{Text: "1", InReplyTo: string(byID)}, {Text: "2", InReplyTo: b.SourceID},
			{Text: "3", ThreadID: a.Chat.ThreadID}, {Text: "4", ThreadID: "1"}, {Text: "5", ThreadID: "999"},
		} {
			lead.Send(t, topic(forum.ID), protocol.TypeTGReply, reply)
		}
		lead.Send(t, topic(forum.ID), protocol.TypeTGReply, protocol.ChatReply{Typing: true, ThreadID: "1"})
		h.texts(forum.ID, 5)
		want := []struct{ thread, quotes int }{{garden, inTopic.ID}, {0, inGeneral.ID}, {garden, 0}, {0, 0}, {0, 0}}
		for i, c := range h.api.Calls("sendMessage") {
			quotes := 0
			if c.Message.ReplyToMessage != nil {
				quotes = c.Message.ReplyToMessage.ID
			}
			if c.Message.MessageThreadID != want[i].thread || quotes != want[i].quotes {
				t.Errorf("message %d is in thread %d and quotes %d, want %+v", i+1, c.Message.MessageThreadID, quotes, want[i])
			}
		}
		if c := h.api.Calls("sendChatAction"); len(c) == 0 || c[0].Int("message_thread_id") != 1 {
			t.Errorf("typing in General: %+v", c)
		}
	})
}

func TestMigration_KeepsAgents(t *testing.T) {
	for name, migrate := range map[string]func(*tgtest.Server, models.Chat, int64) models.Chat{
		"told": (*tgtest.Server).Migrate, "found out": (*tgtest.Server).MigrateSilently,
	} {
		t.Run(name, func(t *testing.T) {
			withFixture(t, func(t *testing.T, h *fixture) {
				will := h.api.User("Will")
				old := h.api.Group(-10, "Team")
				h.opts.AllowAll, h.opts.AllowChats = false, []int64{-10}
				lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
				h.start()
				h.api.Say(old, will, "before")
				h.pass(time.Second)
				h.assign(-10, "agent:lead")
				first := next(t, lead)
				grown := migrate(h.api, old, -100777)
				h.pass(time.Second)
				lead.Send(t, "tg:-10", protocol.TypeTGReply, protocol.ChatReply{Text: "to the old", InReplyTo: first.SourceID})
				h.texts(grown.ID, 1)
				h.api.Say(grown, will, "after")
				got := next(t, lead)
				if got.Text != "after" || got.Chat.ID != "-10" || !strings.Contains(got.SourceID, ":-100777:") {
					t.Errorf("got %+v in %+v", got, got.Chat)
				}
				lead.Send(t, "tg:-100777", protocol.TypeTGReply, protocol.ChatReply{Text: "to the new", InReplyTo: got.SourceID})
				h.texts(grown.ID, 2)
			})
		})
	}
}

func TestUnreadableUpdate_IsKept(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		h.start()
		h.api.InjectRaw(1, json.RawMessage(`{"update_id":1,"message":{"message_id":"no number"}}`))
		h.api.InjectRaw(2, json.RawMessage(`{"update_id":2,"a_kind_of_tomorrow":{}}`))
		h.api.InjectRaw(3, json.RawMessage(`{"update_id":3,"callback_query":{"id":"1","from":{"id":5},"data":"x"}}`))
		h.api.RestartUpdateIDs(10)
		h.api.Say(dm, will, "/help")
		h.texts(dm.ID, 1)
		if s := h.states(); s["unreadable"] != 3 {
			t.Errorf("states are %v", s)
		}
	})
}

func TestCommands(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		will, dm := h.dm("Will")
		lead := h.bus.Join(h.t, "agent:lead", "agent:lead")
		h.start()
		said := 0
		command := func(text, want string) {
			t.Helper()
			h.api.Say(dm, will, text)
			said++
			got := h.texts(dm.ID, said)
			if !strings.Contains(got[said-1], want) {
				t.Errorf("%s: %q does not contain %q", text, got[said-1], want)
			}
		}
		command("/start", "Write a message")
		command("/help", "/status")
		command("/agents", "no agent yet")
		h.assign(dm.ID, "agent:lead")
		h.pass(time.Second)
		command("/agents@hubbub_bot", "@lead, ready")
		command("/status", "waiting for an agent: 0")
		for word, halt := range map[string]string{"/halt": "on", "/resume": "off"} {
			command(word, "Told 1 agent")
			for delivered := false; !delivered; { // the configure message came before
				d := lead.Next(t)
				var c protocol.Configure
				if err := d.Decode(&c); err != nil {
					t.Fatal(err)
				}
				if delivered = c.Halt != ""; delivered && (c.Halt != halt || c.By != "Will" || c.TalkTo != topic(dm.ID)) {
					t.Errorf("%s: the agent is told %+v", word, c)
				}
			}
		}
		command("/stop", "Stopped")
		if got := next(t, lead); got.Text != "stop" || got.Priority != "urgent" {
			t.Errorf("the agent hears %+v", got)
		}
		command("not heard", "don't see your message")
		h.api.Say(dm, will, "nor this")
		lead.Send(t, topic(dm.ID), protocol.TypeTGReply, protocol.ChatReply{Text: "still here"})
		if s := status(t, lead); s.Status != protocol.StatusFailed || !strings.Contains(s.Reason, "stopped") {
			t.Errorf("a reply to a stopped chat: %+v", s)
		}
		command("/start", "running again")
		h.api.Say(dm, will, "/deploy now")
		if got := next(t, lead); got.Text != "/deploy now" {
			t.Errorf("got %q", got.Text)
		}
		if n := len(h.api.Calls("setMyCommands")); n != 1 {
			t.Errorf("the menu was sent %d times", n)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.pass(time.Second)
		if n := len(h.api.Calls("setMyCommands")); n != 1 {
			t.Errorf("the menu was sent again at the second start")
		}
	})
}

func TestReject_AnswersAFewTimes(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		mallory, dm := h.dm("Mallory")
		team := h.api.Group(-10, "Team")
		h.opts.AllowAll = false
		h.start()
		for range 10 {
			for _, word := range []string{"/pair", "/start", "/help", "let me in"} {
				h.api.Say(dm, mallory, word)
				h.api.Say(team, mallory, word)
			}
		}
		if got := h.texts(dm.ID, 3); !strings.Contains(got[0], "user ID "+itoa(mallory.ID)) {
			t.Errorf("Mallory reads %q", got)
		}
		if got := h.texts(team.ID, 3); !strings.Contains(got[0], "ID -10") {
			t.Errorf("the group reads %q", got)
		}
	})
}
