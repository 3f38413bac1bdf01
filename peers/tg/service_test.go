package tg_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestServiceMessages_SayWhatHappened sends service messages and other messages without text, as
// Telegram sends them, and checks what an agent reads.
func TestServiceMessages_SayWhatHappened(t *testing.T) {
	list := `"checklist_message":{"message_id":3,"date":1,"chat":{"id":1,"type":"private"},"checklist":{"title":"Trip","tasks":[{"id":1,"text":"passport"},{"id":4,"text":"socks"}]}}`
	user := func(name string) string { return `{"id":7,"is_bot":false,"first_name":"` + name + `"}` }
	post := func(member string) string {
		return `{"suggested_post_message":{"message_id":3,"date":1,"chat":{"id":1,"type":"private"}},` + member + `}`
	}
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		for i, c := range []struct{ members, want string }{
			{`"refunded_payment":{"currency":"EUR","total_amount":1250}`, "[refunded payment of 1250 in the smallest units of EUR]"},
			{`"refunded_payment":{"currency":"XTR","total_amount":1}`, "[refunded payment of 1 star]"},
			{`"successful_payment":{"currency":"XTR","total_amount":50}`, "[payment of 50 stars]"},
			{`"checklist_tasks_added":{` + list + `,"tasks":[{"id":5,"text":"charger"},{"id":6,"text":"maps"}]}`, "[added to the checklist “Trip”: 5. charger, 6. maps]"},
			{`"checklist_tasks_added":{"tasks":[{"id":2,"text":"tent"}]}`, "[added to the checklist: 2. tent]"},
			{`"checklist_tasks_done":{` + list + `,"marked_as_done_task_ids":[4],"marked_as_not_done_task_ids":[1,9]}`, "[checklist “Trip”; done: 4. socks; no longer done: 1. passport, task 9]"},
			{`"pinned_message":{"message_id":3,"date":1,"chat":{"id":1,"type":"private"},"text":"Dinner\nat eight"}`, "[pinned message: Dinner at eight]"},
			{`"pinned_message":{"message_id":3,"date":1,"chat":{"id":1,"type":"private"},"location":{"latitude":52.5,"longitude":13.25}}`, "[pinned message: [location: 52.5, 13.25]]"},
			{`"pinned_message":{"message_id":3,"date":0,"chat":{"id":1,"type":"private"}}`, "[pinned message: one that a bot cannot see]"},
			{`"location":{"latitude":52.5,"longitude":13.25,"live_period":900}`, "[live location, shared for 15m: 52.5, 13.25]"},
			{`"edit_date":9,"location":{"latitude":-52.5,"longitude":0.25,"live_period":3600}`, "[live location, now at: -52.5, 0.25]"},
			{`"edit_date":9,"location":{"latitude":52.5,"longitude":13.25}`, "[live location, no longer shared, last at: 52.5, 13.25]"},
			{`"proximity_alert_triggered":{"traveler":` + user("Ann") + `,"watcher":` + user("Bob") + `,"distance":80}`, "[Ann is within 80 m of Bob]"},
			{`"forum_topic_created":{"name":"Garden","icon_color":1}`, "[new topic: Garden]"},
			{`"forum_topic_edited":{"name":"Balcony"}`, "[new name of the topic: Balcony]"},
			{`"video_chat_scheduled":{"start_date":1790000000}`, "[video chat scheduled for 2026-09-21T14:13:20Z]"},
			{`"video_chat_ended":{"duration":3725}`, "[video chat ended after 1h2m5s]"},
			{`"video_chat_participants_invited":{"users":[` + user("Ann") + `,` + user("Bob") + `]}`, "[invited to the video chat: Ann, Bob]"},
			{`"message_auto_delete_timer_changed":{"message_auto_delete_time":86400}`, "[messages are now deleted after 24h]"},
			{`"boost_added":{"boost_count":2}`, "[boosted the chat: 2 boosts]"},
			{`"users_shared":{"request_id":1,"users":[{"user_id":9,"first_name":"Mia","username":"mia"},{"user_id":10}]}`, "[shared users: Mia (@mia), 10]"},
			{`"chat_shared":{"request_id":1,"chat_id":-9,"title":"Choir"}`, "[shared chat: Choir]"},
			{`"paid_message_price_changed":{"paid_message_star_count":3}`, "[a message here now costs 3 stars]"},
			{`"suggested_post_paid":` + post(`"currency":"XTR","star_amount":{"amount":40}`), "[suggested post paid: 40 stars]"},
			{`"suggested_post_declined":` + post(`"comment":"too long"`), "[suggested post declined: too long]"},
			{`"giveaway_completed":{"winner_count":1}`, "[giveaway completed with 1 winner]"},
			{`"poll_option_added":{"option_persistent_id":"x","option_text":"Sunday"}`, "[added to the poll: Sunday]"},
			{`"chat_owner_changed":{"new_owner":` + user("Ann") + `}`, "[new owner of the chat: Ann]"},
		} {
			kind := "message"
			if c.members[:6] == `"edit_` {
				kind = "edited_message"
			}
			h.api.InjectRaw(int64(900+i), json.RawMessage(fmt.Sprintf(
				`{"update_id":%d,"%s":{"message_id":%d,"date":5,"chat":{"id":%d,"type":"private","first_name":"Will"},"from":{"id":%d,"is_bot":false,"first_name":"Will"},%s}}`,
				900+i, kind, 500+i, dm.ID, dm.ID, c.members)))
			if got := next(t, lead); got.Text != c.want {
				t.Errorf("%s is read as %q; want %q", c.members, got.Text, c.want)
			}
		}
	})
}

// TestAudio_NamesPerformerAndTitle checks the name of a song, with and without a caption.
func TestAudio_NamesPerformerAndTitle(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		dm, lead, _ := h.talk()
		n := int64(900)
		for _, c := range []struct{ audio, want string }{
			{`"performer":"Nina Simone","title":"Sinnerman","file_name":"track 3.mp3"`, "Nina Simone - Sinnerman (track 3.mp3)"},
			{`"performer":"Nina Simone","title":"Sinnerman"`, "Nina Simone - Sinnerman"},
			{`"title":"Tea\nfor two","file_name":"x.ogg"`, "Tea for two (x.ogg)"},
			{`"performer":"Кино","title":"Звезда","file_name":"Кино - Звезда.mp3"`, "Кино - Звезда.mp3"},
			{`"file_name":"memo.m4a"`, "memo.m4a"},
		} {
			for _, caption := range []string{"", `,"caption":"what is this?"`} {
				n++
				h.api.InjectRaw(n, json.RawMessage(fmt.Sprintf(
					`{"update_id":%d,"message":{"message_id":%d,"date":5,"chat":{"id":%d,"type":"private"},"from":{"id":%d,"is_bot":false,"first_name":"Will"},"audio":{"file_id":"a","duration":9,%s}%s}}`,
					n, n, dm.ID, dm.ID, c.audio, caption)))
				if got := next(t, lead); len(got.Attachments) != 1 || got.Attachments[0].Name != c.want {
					t.Errorf("%s: %+v", c.audio, got.Attachments)
				}
			}
		}
	})
}
