package write

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/activitylog/internal/segment"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
)

func TestSmallNumber_RestoresText(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "9": 9, "10": 10, "907": 907, strings.Repeat("9", 15): 999_999_999_999_999,
		"": -1, "00": -1, "01": -1, "-1": -1, "+1": -1, "/": -1, ":": -1, "1a": -1, "1 ": -1, "1.5": -1, strings.Repeat("9", 16): -1,
	} {
		if n, ok := smallNumber(text); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q is %d, %t", text, n, ok)
		}
	}
}

func TestUsualPayload_IsNumbered(t *testing.T) {
	accepted := func(rest string) string { return `{"accepted":true,"messageId":"m","deliveredTo":` + rest }
	for _, c := range []struct {
		event       activitylog.Event
		id, payload string
		want        int64
	}{
		{activitylog.ProcessFinish, "m", `{"processed":true}`, 1},
		{activitylog.ProcessFinish, "m", `{"processed":false}`, -1},
		{activitylog.ProcessFinish, "m", accepted("0}"), -1},
		{activitylog.ProcessStart, "m", `{"processed":true}`, -1},
		{activitylog.SendFinish, "m", `{"processed":true}`, -1},
		{activitylog.SendStart, "m", accepted("0}"), -1},
		{activitylog.SendFinish, "m", accepted("0}"), 0},
		{activitylog.SendFinish, "m", accepted("1}"), 4},
		{activitylog.SendFinish, "m", accepted("90}"), 360},
		{activitylog.SendFinish, "m", accepted(`0,"addressee":"ok"}`), 1},
		{activitylog.SendFinish, "m", accepted(`2,"addressee":"failed"}`), 10},
		{activitylog.SendFinish, "m", accepted(`19,"addressee":"absent"}`), 79},
		{activitylog.SendFinish, "m", accepted(`2,"addressee":"other"}`), -1},
		{activitylog.SendFinish, "m", accepted("01}"), -1},
		{activitylog.SendFinish, "m", accepted("-1}"), -1},
		{activitylog.SendFinish, "m", accepted("}"), -1},
		{activitylog.SendFinish, "m", accepted("7"), -1},
		{activitylog.SendFinish, "m", accepted("7} "), -1},
		{activitylog.SendFinish, "m", accepted(strings.Repeat("9", 16) + "}"), -1},
		{activitylog.SendFinish, "n", accepted("0}"), -1},
		{activitylog.SendFinish, "", `{"accepted":true,"messageId":"","deliveredTo":0}`, -1},
		{activitylog.SendFinish, "m", `{"accepted":true,"messageId":"m","failures":[]}`, -1},
		{activitylog.SendFinish, "m", ``, -1},
	} {
		r := activitylog.Row{Event: c.event, MessageID: c.id, Payload: []byte(c.payload)}
		if got := usualPayload(&r); got != c.want {
			t.Errorf("%s of %q, %s: %d; want %d", c.event, c.id, c.payload, got, c.want)
		}
	}
}

// TestEncode_OmitsDerivableValues stores a row with id 10 in file 2, without the values that
// follow from its kind or from the row that it refers to.
func TestEncode_OmitsDerivableValues(t *testing.T) {
	const ok0, ok1 = `{"accepted":true,"messageId":"m","deliveredTo":0}`, `{"accepted":true,"messageId":"m","deliveredTo":1}`
	row := func(event activitylog.Event, of *activitylog.Sending, change func(*activitylog.Row)) activitylog.Row {
		r := activitylog.Row{Event: event, Of: of, MessageID: "m", RPCID: "7", Actor: "tg:1", Topic: "agent:a", Status: "odd"}
		if change != nil {
			change(&r)
		}
		return r
	}
	status := func(s string) func(*activitylog.Row) { return func(r *activitylog.Row) { r.Status = s } }
	whole := stored{rpcID: "7", actor: "tg:1", topic: "agent:a", messageID: "m", status: "odd", usual: -1}
	but := func(change func(*stored)) stored { s := whole; change(&s); return s }
	usual := but(func(s *stored) { s.status = "" })
	empty := but(func(s *stored) { s.status, s.emptyStatus = "", true })
	pointing := stored{msg: 5, rpcID: "7", actor: "tg:1", status: "odd", usual: -1}
	begun := activitylog.Sending{File: 2, First: 5, Begun: true}
	cut := activitylog.Sending{File: 2, First: 5}
	here := func(begun bool) *activitylog.Sending { return &activitylog.Sending{File: 2, First: 10, Begun: begun} }
	for name, c := range map[string]struct {
		row  activitylog.Row
		want stored
		of   *activitylog.Sending // afterwards
	}{
		"of no sending":                 {row(activitylog.ProcessStart, nil, nil), whole, nil},
		"a start":                       {row(activitylog.SendStart, nil, status("start")), usual, nil},
		"an empty status":               {row(activitylog.SendStart, nil, status("")), empty, nil},
		"a delivery that starts":        {row(activitylog.ProcessStart, nil, status("start")), usual, nil},
		"a delivery that ends":          {row(activitylog.ProcessFinish, nil, status("ok")), usual, nil},
		"one that ends as none does":    {row(activitylog.ProcessFinish, nil, status("start")), but(func(s *stored) { s.status = "start" }), nil},
		"another event":                 {row(activitylog.Subscribe, nil, status("")), but(func(s *stored) { s.status = "" }), nil},
		"an end without a usual result": {row(activitylog.SendFinish, nil, status("ok")), but(func(s *stored) { s.status = "ok" }), nil},
		"the same, of no status":        {row(activitylog.SendFinish, nil, status("")), but(func(s *stored) { s.status = "" }), nil},
		"an end at nobody": {row(activitylog.SendFinish, nil, func(r *activitylog.Row) { r.Status, r.Payload = "no_subscriber", []byte(ok0) }),
			but(func(s *stored) { s.status, s.usual = "", 0 }), nil},
		"an end at one": {row(activitylog.SendFinish, nil, func(r *activitylog.Row) { r.Status, r.Payload = "ok", []byte(ok1) }),
			but(func(s *stored) { s.status, s.usual = "", 4 }), nil},
		"at one, and it says nobody": {row(activitylog.SendFinish, nil, func(r *activitylog.Row) { r.Status, r.Payload = "no_subscriber", []byte(ok1) }),
			but(func(s *stored) { s.status, s.usual = "no_subscriber", 4 }), nil},

		"the first of a sending":      {row(activitylog.SendStart, &activitylog.Sending{}, nil), whole, here(true)},
		"a delivery is the first":     {row(activitylog.ProcessStart, &activitylog.Sending{}, nil), whole, here(false)},
		"the first in this file":      {row(activitylog.ProcessStart, &activitylog.Sending{File: 1, First: 5, Begun: true}, nil), whole, here(false)},
		"one that was not committed":  {row(activitylog.ProcessStart, &activitylog.Sending{File: 2, First: 10, Begun: true}, nil), whole, here(false)},
		"a start again":               {row(activitylog.SendStart, &activitylog.Sending{File: 2, First: 5, Begun: true}, nil), whole, here(true)},
		"without an id":               {row(activitylog.ProcessStart, &activitylog.Sending{}, func(r *activitylog.Row) { r.MessageID = "" }), but(func(s *stored) { s.messageID = "" }), &activitylog.Sending{}},
		"a delivery":                  {row(activitylog.ProcessStart, copyOf(begun), nil), pointing, &begun},
		"its end":                     {row(activitylog.ProcessFinish, copyOf(begun), nil), pointing, &begun},
		"a delivery to its topic":     {row(activitylog.ProcessStart, copyOf(begun), func(r *activitylog.Row) { r.Actor = "agent:a" }), stored{msg: 5, rpcID: "7", status: "odd", usual: -1}, &begun},
		"a delivery to nobody":        {row(activitylog.ProcessStart, copyOf(begun), func(r *activitylog.Row) { r.Actor = "" }), but(func(s *stored) { s.actor = "" }), &begun},
		"the end of all":              {row(activitylog.SendFinish, copyOf(begun), nil), stored{msg: 5, status: "odd", usual: -1}, &begun},
		"the end of one cut":          {row(activitylog.SendFinish, copyOf(cut), nil), pointing, &cut},
		"the same, by nobody":         {row(activitylog.SendFinish, copyOf(cut), func(r *activitylog.Row) { r.Actor = "" }), but(func(s *stored) { s.actor = "" }), &cut},
		"the same, without a request": {row(activitylog.SendFinish, copyOf(cut), func(r *activitylog.Row) { r.RPCID = "" }), but(func(s *stored) { s.rpcID = "" }), &cut},
		"a refusal":                   {row(activitylog.Rejected, copyOf(begun), nil), whole, &begun},
	} {
		got := encode(&c.row, 10, 2)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(stored{})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if diff := cmp.Diff(c.of, c.row.Of, cmp.AllowUnexported(activitylog.Sending{})); diff != "" {
			t.Errorf("%s, of its sending:\n%s", name, diff)
		}
	}
}

func copyOf(s activitylog.Sending) *activitylog.Sending { return &s }

// TestMessageHashes_AreFNV1a also checks that each message is hashed once.
func TestMessageHashes_AreFNV1a(t *testing.T) {
	for id, want := range map[string]uint64{"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8} {
		if got := segment.HashOf(id); got != want {
			t.Errorf("%q has the hash %x; want %x", id, got, want)
		}
	}
	of := &activitylog.Sending{}
	for range 2 { // it is kept for the next row
		if h, ok := messageHash(&activitylog.Row{MessageID: "a", Of: of}); !ok || h != segment.HashOf("a") || of.Hash != h {
			t.Errorf("a sending has the hash %x, %t", h, ok)
		}
	}
	if _, ok := messageHash(&activitylog.Row{Of: of}); ok {
		t.Error("no message has a hash")
	}
	var b segment.IndexBuilder
	for range 2 { // in the memory of the one before
		b.Reset()
		for _, at := range []int64{5, 3, 9, 7} {
			b.AddRow(at, activitylog.ProcessStart, "", nil)
		}
		for _, id := range []string{"b", "a", "b"} {
			b.AddMessage(segment.HashOf(id))
		}
		i, want := b.Index(), []uint64{segment.HashOf("a"), segment.HashOf("b")}
		slices.Sort(want)
		var hashes []byte
		for _, h := range want {
			hashes = binary.BigEndian.AppendUint64(hashes, h)
		}
		if i.Since != 3 || i.Until != 9 || !bytes.Equal(i.Hashes, hashes) {
			t.Errorf("from %d to %d, hashes %x", i.Since, i.Until, i.Hashes)
		}
	}
}

// TestBatch_HasItsMessages checks every hash at every position.
func TestBatch_HasItsMessages(t *testing.T) {
	for n := range 7 {
		b := &segment.Batch{}
		for i := range uint64(n) {
			b.Hashes = binary.BigEndian.AppendUint64(b.Hashes, 10*i+10)
		}
		for h := range uint64(85) {
			want := h%10 == 0 && h > 0 && h <= uint64(10*n)
			if got := b.Has(binary.BigEndian.AppendUint64(nil, h)); got != want {
				t.Errorf("of %d hashes, %d: %t", n, h, got)
			}
		}
	}
}

// TestRowsOf_StopsAtLimit reads a sealed file and the active segment.
func TestRowsOf_StopsAtLimit(t *testing.T) {
	s := logtest.NewScript(t)
	for range 3 {
		s.Send("m", `{"type":"tg_message","from":"tg:1"}`, "tg:1", "agent:a", "agent:a")
		s.Message("tg_message", "tg:2", "agent:a", `{}`)
	}
	path := written(s, "") // by one commit
	live := path + ".live.db"
	store(t, live, &Options{SegmentAge: 100 * 365 * 24 * time.Hour}, slices.Collect(slices.Chunk(s.Rows, 2))...)
	sealedLog := path + ".sealed.db"
	store(t, sealedLog, &Options{SegmentRows: 1}, s.Rows)
	if err := segment.Seal(t.Context(), segment.Path(sealedLog, 1)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, live, segment.Path(sealedLog, 1)} {
		for limit := 1; limit <= 14; limit++ {
			v, err := segment.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			rows, stopped := 0, 0
			v.RowsOf("m", v.SelectEntries(), "", limit, func(*sqlite.Stmt) bool { rows++; return true })
			v.RowsOf("m", v.SelectEntries(), "", 100, func(*sqlite.Stmt) bool { stopped++; return stopped < limit })
			if want := min(limit, 12); rows != want || stopped != want {
				t.Errorf("%s gives %d rows of %d, and %d until it is stopped", file, rows, limit, stopped)
			}
			if h := v.StartOf("nobody", 1); v.Lookup && h != (segment.Envelope{Type: "tg_message", From: "tg:1"}) || v.StartOf("nobody", 0) != (segment.Envelope{}) {
				t.Errorf("%s: row 1 begins %+v", file, h)
			}
			if err := v.Conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEnvelopes_AreRemembered(t *testing.T) {
	v := &segment.View{Envelopes: map[string]segment.Envelope{}}
	for i := range segment.MaxEnvelopes + 1 {
		if v.Remember(logtest.Numbered(i).MessageID, segment.Envelope{}); len(v.Envelopes) != i%50_000+1 {
			t.Fatalf("after %d, %d are remembered", i+1, len(v.Envelopes))
		}
	}
}
