package activitylog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"zombiezen.com/go/sqlite"
)

func TestNumbersThatAreWrittenBackAsTheyWere(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1": 1, "9": 9, "10": 10, "907": 907, strings.Repeat("9", 15): 999_999_999_999_999,
		"": -1, "00": -1, "01": -1, "-1": -1, "+1": -1, "/": -1, ":": -1, "1a": -1, "1 ": -1, "1.5": -1, strings.Repeat("9", 16): -1,
	} {
		if n, ok := smallNumber(text); ok != (want >= 0) || ok && n != want {
			t.Errorf("%q is %d, %t", text, n, ok)
		}
	}
}

func TestUsualPayloadsAreNumbers(t *testing.T) {
	accepted := func(rest string) string { return `{"accepted":true,"messageId":"m","deliveredTo":` + rest }
	for _, c := range []struct {
		event       Event
		id, payload string
		want        int64
	}{
		{ProcessFinish, "m", `{"processed":true}`, 1},
		{ProcessFinish, "m", `{"processed":false}`, -1},
		{ProcessFinish, "m", accepted("0}"), -1},
		{ProcessStart, "m", `{"processed":true}`, -1},
		{SendFinish, "m", `{"processed":true}`, -1},
		{SendStart, "m", accepted("0}"), -1},
		{SendFinish, "m", accepted("0}"), 0},
		{SendFinish, "m", accepted("1}"), 4},
		{SendFinish, "m", accepted("90}"), 360},
		{SendFinish, "m", accepted(`0,"addressee":"ok"}`), 1},
		{SendFinish, "m", accepted(`2,"addressee":"failed"}`), 10},
		{SendFinish, "m", accepted(`19,"addressee":"absent"}`), 79},
		{SendFinish, "m", accepted(`2,"addressee":"other"}`), -1},
		{SendFinish, "m", accepted("01}"), -1},
		{SendFinish, "m", accepted("-1}"), -1},
		{SendFinish, "m", accepted("}"), -1},
		{SendFinish, "m", accepted("7"), -1},
		{SendFinish, "m", accepted("7} "), -1},
		{SendFinish, "m", accepted(strings.Repeat("9", 16) + "}"), -1},
		{SendFinish, "n", accepted("0}"), -1},
		{SendFinish, "", `{"accepted":true,"messageId":"","deliveredTo":0}`, -1},
		{SendFinish, "m", `{"accepted":true,"messageId":"m","failures":[]}`, -1},
		{SendFinish, "m", ``, -1},
	} {
		r := Row{Event: c.event, MessageID: c.id, Payload: []byte(c.payload)}
		if got := r.usualPayload(); got != c.want {
			t.Errorf("%s of %q, %s: %d; want %d", c.event, c.id, c.payload, got, c.want)
		}
	}
}

// TestWhatIsStoredOfARow with id 10 in file 2: what the row that it points to, or its kind,
// says already is left out.
func TestWhatIsStoredOfARow(t *testing.T) {
	const ok0, ok1 = `{"accepted":true,"messageId":"m","deliveredTo":0}`, `{"accepted":true,"messageId":"m","deliveredTo":1}`
	row := func(event Event, of *Sending, change func(*Row)) Row {
		r := Row{Event: event, Of: of, MessageID: "m", RPCID: "7", Actor: "tg:1", Topic: "agent:a", Status: "odd"}
		if change != nil {
			change(&r)
		}
		return r
	}
	status := func(s string) func(*Row) { return func(r *Row) { r.Status = s } }
	whole := stored{rpcID: "7", actor: "tg:1", topic: "agent:a", messageID: "m", status: "odd", usual: -1}
	but := func(change func(*stored)) stored { s := whole; change(&s); return s }
	usual := but(func(s *stored) { s.status = "" })
	empty := but(func(s *stored) { s.status, s.emptyStatus = "", true })
	pointing := stored{msg: 5, rpcID: "7", actor: "tg:1", status: "odd", usual: -1}
	begun := Sending{file: 2, first: 5, begun: true}
	cut := Sending{file: 2, first: 5}
	here := func(begun bool) *Sending { return &Sending{file: 2, first: 10, begun: begun} }
	for name, c := range map[string]struct {
		row  Row
		want stored
		of   *Sending // afterwards
	}{
		"of no sending":                 {row(ProcessStart, nil, nil), whole, nil},
		"a start":                       {row(SendStart, nil, status("start")), usual, nil},
		"an empty status":               {row(SendStart, nil, status("")), empty, nil},
		"a delivery that starts":        {row(ProcessStart, nil, status("start")), usual, nil},
		"a delivery that ends":          {row(ProcessFinish, nil, status("ok")), usual, nil},
		"one that ends as none does":    {row(ProcessFinish, nil, status("start")), but(func(s *stored) { s.status = "start" }), nil},
		"another event":                 {row(Subscribe, nil, status("")), but(func(s *stored) { s.status = "" }), nil},
		"an end without a usual result": {row(SendFinish, nil, status("ok")), but(func(s *stored) { s.status = "ok" }), nil},
		"the same, of no status":        {row(SendFinish, nil, status("")), but(func(s *stored) { s.status = "" }), nil},
		"an end at nobody": {row(SendFinish, nil, func(r *Row) { r.Status, r.Payload = "no_subscriber", []byte(ok0) }),
			but(func(s *stored) { s.status, s.usual = "", 0 }), nil},
		"an end at one": {row(SendFinish, nil, func(r *Row) { r.Status, r.Payload = "ok", []byte(ok1) }),
			but(func(s *stored) { s.status, s.usual = "", 4 }), nil},
		"at one, and it says nobody": {row(SendFinish, nil, func(r *Row) { r.Status, r.Payload = "no_subscriber", []byte(ok1) }),
			but(func(s *stored) { s.status, s.usual = "no_subscriber", 4 }), nil},

		"the first of a sending":      {row(SendStart, &Sending{}, nil), whole, here(true)},
		"a delivery is the first":     {row(ProcessStart, &Sending{}, nil), whole, here(false)},
		"the first in this file":      {row(ProcessStart, &Sending{file: 1, first: 5, begun: true}, nil), whole, here(false)},
		"one that was not committed":  {row(ProcessStart, &Sending{file: 2, first: 10, begun: true}, nil), whole, here(false)},
		"a start again":               {row(SendStart, &Sending{file: 2, first: 5, begun: true}, nil), whole, here(true)},
		"without an id":               {row(ProcessStart, &Sending{}, func(r *Row) { r.MessageID = "" }), but(func(s *stored) { s.messageID = "" }), &Sending{}},
		"a delivery":                  {row(ProcessStart, copyOf(begun), nil), pointing, &begun},
		"its end":                     {row(ProcessFinish, copyOf(begun), nil), pointing, &begun},
		"a delivery to its topic":     {row(ProcessStart, copyOf(begun), func(r *Row) { r.Actor = "agent:a" }), stored{msg: 5, rpcID: "7", status: "odd", usual: -1}, &begun},
		"a delivery to nobody":        {row(ProcessStart, copyOf(begun), func(r *Row) { r.Actor = "" }), but(func(s *stored) { s.actor = "" }), &begun},
		"the end of all":              {row(SendFinish, copyOf(begun), nil), stored{msg: 5, status: "odd", usual: -1}, &begun},
		"the end of one cut":          {row(SendFinish, copyOf(cut), nil), pointing, &cut},
		"the same, by nobody":         {row(SendFinish, copyOf(cut), func(r *Row) { r.Actor = "" }), but(func(s *stored) { s.actor = "" }), &cut},
		"the same, without a request": {row(SendFinish, copyOf(cut), func(r *Row) { r.RPCID = "" }), but(func(s *stored) { s.rpcID = "" }), &cut},
		"a refusal":                   {row(Rejected, copyOf(begun), nil), whole, &begun},
	} {
		got := c.row.stored(10, 2)
		if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(stored{})); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
		if diff := cmp.Diff(c.of, c.row.Of, cmp.AllowUnexported(Sending{})); diff != "" {
			t.Errorf("%s, of its sending:\n%s", name, diff)
		}
	}
}

func copyOf(s Sending) *Sending { return &s }

// TestHashesOfMessageIDs: those of FNV-1a, of each message once.
func TestHashesOfMessageIDs(t *testing.T) {
	for id, want := range map[string]uint64{"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8} {
		if got := hashOf(id); got != want {
			t.Errorf("%q has the hash %x; want %x", id, got, want)
		}
	}
	of := &Sending{}
	for range 2 { // it is kept for the next row
		if h, ok := (&Row{MessageID: "a", Of: of}).hash(); !ok || h != hashOf("a") || of.hash != h {
			t.Errorf("a sending has the hash %x, %t", h, ok)
		}
	}
	if _, ok := (&Row{Of: of}).hash(); ok {
		t.Error("no message has a hash")
	}
	var s summary
	for range 2 { // in the memory of the one before
		s.summarize([]Row{{At: 5, MessageID: "b"}, {At: 3, MessageID: "a"}, {At: 9}, {At: 7, MessageID: "b", Of: &Sending{}}}, []int32{0, 1, 2, 3})
		want := []uint64{hashOf("a"), hashOf("b")}
		slices.Sort(want)
		if s.since != 3 || s.until != 9 || !slices.Equal(s.hashes, want) || len(s.blob()) != 16 {
			t.Errorf("from %d to %d, hashes %x", s.since, s.until, s.hashes)
		}
	}
}

// TestABatchKnowsItsMessages: whichever hash it has, wherever it stands.
func TestABatchKnowsItsMessages(t *testing.T) {
	for n := range 7 {
		var s summary
		for i := range n {
			s.hashes = append(s.hashes, uint64(10*i+10))
		}
		b := &batch{hashes: s.blob()}
		for h := range uint64(85) {
			if got, want := b.has((&summary{hashes: []uint64{h}}).blob()), slices.Contains(s.hashes, h); got != want {
				t.Errorf("of %d hashes, %d: %t", n, h, got)
			}
		}
	}
}

// TestRowsOfAMessageEndWhenEnough, in a sealed file and in the active segment.
func TestRowsOfAMessageEndWhenEnough(t *testing.T) {
	s := newScript(t)
	for range 3 {
		s.send("m", `{"type":"tg_message","from":"tg:1"}`, "tg:1", "agent:a", "agent:a")
		s.message("tg_message", "tg:2", "agent:a", `{}`)
	}
	path := s.written("") // by one commit
	live := path + ".live.db"
	store(t, live, &Options{SegmentAge: 100 * 365 * 24 * time.Hour}, slices.Collect(slices.Chunk(s.w, 2))...)
	sealedLog := path + ".sealed.db"
	store(t, sealedLog, &Options{SegmentRows: 1}, s.w)
	if err := seal(t.Context(), segmentPath(sealedLog, 1)); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, live, segmentPath(sealedLog, 1)} {
		for limit := 1; limit <= 14; limit++ {
			v, err := openView(file)
			if err != nil {
				t.Fatal(err)
			}
			rows, stopped := 0, 0
			v.rowsOf("m", v.selectEntries(), "", limit, func(*sqlite.Stmt) bool { rows++; return true })
			v.rowsOf("m", v.selectEntries(), "", 100, func(*sqlite.Stmt) bool { stopped++; return stopped < limit })
			if want := min(limit, 12); rows != want || stopped != want {
				t.Errorf("%s gives %d rows of %d, and %d until it is stopped", file, rows, limit, stopped)
			}
			if h := v.startOf("nobody", 1); v.lookup && h != (envelope{"tg_message", "tg:1"}) || v.startOf("nobody", 0) != (envelope{}) {
				t.Errorf("%s: row 1 begins %+v", file, h)
			}
			if err := v.conn.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestHeadsThatAreRemembered(t *testing.T) {
	v := &view{envelopes: map[string]envelope{}}
	for i := range maxEnvelopes + 1 {
		if v.remember(numbered(i).MessageID, envelope{}); len(v.envelopes) != i%50_000+1 {
			t.Fatalf("after %d, %d are remembered", i+1, len(v.envelopes))
		}
	}
}
