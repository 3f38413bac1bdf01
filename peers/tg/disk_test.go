package tg_test

import (
	"fmt"
	"testing"
	"time"

	"hubbub/peers/store/storetest"
	"hubbub/peers/tg"
	"hubbub/protocol"

	"github.com/go-telegram/bot/models"
)

// TestFullDisk_LosesNothing stops the database from growing. Nothing may be confirmed or
// acknowledged until it can grow again, and then nothing may be missing.
func TestFullDisk_LosesNothing(t *testing.T) {
	withFixture(t, func(t *testing.T, h *fixture) {
		db, err := tg.Open(h.path)
		if err != nil {
			t.Fatal(err)
		}
		if err := storetest.Exec(db, "VACUUM"); err != nil { // free the unused pages
			t.Fatal(err)
		}
		h.db = db
		dm, lead, _ := h.talk()
		limit := func(pages int) {
			t.Helper()
			if err := storetest.Exec(db, fmt.Sprintf("PRAGMA max_page_count = %d", pages)); err != nil {
				t.Fatal(err)
			}
		}
		limit(1)            // the minimum is the current size
		for i := range 40 { // until the existing pages are full
			h.api.Say(dm, models.User{ID: dm.ID, FirstName: "Will"}, fmt.Sprintf("message %d %0800d", i, 0))
		}
		h.pass(20 * time.Second)
		if h.api.Pending() == 0 {
			t.Error("updates were confirmed that are not on disk")
		}
		if !h.log.has("storing updates") {
			t.Error("the log does not say what is wrong")
		}
		r := reply(t, lead, dm.ID, protocol.ChatReply{Text: fmt.Sprintf("%08000d", 0)})
		if r.DeliveredTo != 0 {
			t.Error("a reply was acknowledged that is not on disk")
		}
		limit(1 << 30)
		h.pass(2 * time.Minute) // longer than any backoff
		for i := range 40 {
			if got := next(t, lead); got.Text != fmt.Sprintf("message %d %0800d", i, 0) {
				t.Fatalf("message %d is %.40q", i, got.Text)
			}
		}
	})
}
