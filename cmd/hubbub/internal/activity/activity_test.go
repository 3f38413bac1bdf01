package activity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"hubbub/activitylog"
	"hubbub/activitylog/chain"
	"hubbub/activitylog/read"
	"hubbub/activitylog/view"
	"hubbub/activitylog/write"
	"hubbub/cmd/hubbub/internal/logs"
	"hubbub/cmd/hubbub/internal/output"
	"hubbub/cmd/internal/term"
	"hubbub/peers/attention"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

var testTime = time.Date(2026, 2, 17, 12, 0, 0, 0, time.UTC)

// newLog writes rows to a log and opens it.
func newLog(t *testing.T, rows ...activitylog.Row) *read.Reader {
	t.Helper()
	return newLogAt(t, filepath.Join(t.TempDir(), logs.File), rows...)
}

func newLogAt(t *testing.T, path string, rows ...activitylog.Row) *read.Reader {
	t.Helper()
	w := write.NewWriter(path, nil)
	w.Append(rows...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Run(ctx); err != nil {
		t.Fatal(err)
	}
	r := read.Open(path)
	t.Cleanup(r.Close)
	return r
}

// messageRows returns the rows of one message, which each target processes for some time.
func messageRows(at time.Duration, id, typ, from, topic, content string, took time.Duration, targets ...string) []activitylog.Row {
	payload, err := json.Marshal(map[string]any{"messageId": id, "type": typ, "from": from, "timestamp": "2026-02-17T12:00:00Z", "content": json.RawMessage(content)})
	if err != nil {
		panic(err)
	}
	begin, end := testTime.Add(at).UnixMicro(), testTime.Add(at+took).UnixMicro()
	rows := []activitylog.Row{{At: begin, Event: activitylog.SendStart, MessageID: id, RPCID: "1", Actor: from, Topic: topic, Status: activitylog.StatusStart, Payload: payload}}
	for _, target := range targets {
		name, status, failed := strings.Cut(target, "!")
		if !failed {
			status = activitylog.StatusOK
		}
		rows = append(rows,
			activitylog.Row{At: begin, Event: activitylog.ProcessStart, MessageID: id, RPCID: name, Actor: name, Topic: topic, Status: activitylog.StatusStart},
			activitylog.Row{At: end, Event: activitylog.ProcessFinish, MessageID: id, RPCID: name, Actor: name, Topic: topic, Status: status},
		)
	}
	return append(rows, activitylog.Row{At: end, Event: activitylog.SendFinish, MessageID: id, RPCID: "1", Actor: from, Topic: topic, Status: activitylog.StatusOK,
		Payload: []byte(`{"accepted":true,"deliveredTo":1}`)})
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]time.Time{
		"":                          {},
		"2026-01-02T03:04:05Z":      time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		"2026-01-02T03:04:05+01:00": time.Date(2026, 1, 2, 2, 4, 5, 0, time.UTC),
		"2026-01-02":                time.Date(2026, 1, 2, 0, 0, 0, 0, time.Local),
		"15m":                       testTime.Add(-15 * time.Minute),
		"1.5d":                      testTime.Add(-36 * time.Hour),
		"0s":                        testTime,
	} {
		if got, err := logs.ParseTime("since", text, testTime); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s (%v); want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"yesterday", "-5m", "-1d", "xd", "99999999d", "2026-13-01"} {
		if got, err := logs.ParseTime("since", text, testTime); err == nil {
			t.Errorf("%q was read as %s", text, got)
		}
	}
}

// TestPrune_RefusesAgeAfterJump prunes a log whose bus does not trust the clock.
func TestPrune_RefusesAgeAfterJump(t *testing.T) {
	path := filepath.Join(t.TempDir(), logs.File)
	for state, want := range map[string]string{
		`{"ahead":1,"jump":{"from":"2026-01-01T00:00:00Z","to":"2027-01-01T00:00:00Z"}}`:  "from 2026-01-01T00:00:00Z to 2027-01-01T00:00:00Z.*--before as a time: 2026-02-17T12:00:00Z",
		`{"ahead":-1,"jump":{"from":"2026-01-01T00:00:00Z","to":"2025-01-01T00:00:00Z"}}`: "",
		`{"wall":"2026-01-01T00:00:00Z"}`:                                                 "",
		"{":                                                                               "",
	} {
		if err := os.WriteFile(strings.TrimSuffix(path, ".db")+".clock", []byte(state), 0o600); err != nil {
			t.Fatal(err)
		}
		err := checkClock(path, testTime)
		if (err == nil) != (want == "") || err != nil && !regexp.MustCompile(want).MatchString(err.Error()) {
			t.Errorf("%s: %v; want %q", state, err, want)
		}
	}
}

// TestOutput_EscapesControlCharacters checks rows with control characters, which a sender or a foreign
// log may contain.
func TestOutput_EscapesControlCharacters(t *testing.T) {
	const evil = "\x1b[2J\u009b31m\x7f\u202e\n"
	payload, err := json.Marshal(map[string]any{"type": "tg_message" + evil, "content": map[string]string{"text": evil}})
	if err != nil {
		t.Fatal(err)
	}
	entries := []activitylog.Entry{
		{ID: 1, TS: "today" + evil, Event: "send_start" + evil, MessageID: "m" + evil, Actor: evil, Topic: evil, Status: evil, Payload: payload, Error: evil, Type: evil},
		{ID: 2, TS: "2026-02-17T12:00:00.000000Z", Event: "send_finish", MessageID: "abééééxyz", Payload: []byte(`"` + evil[:1]), Error: evil},
		{ID: 3, TS: "2026-02-17T12:00:00.000000Z", Event: "send_start", MessageID: "bytes", Payload: []byte("{\"text\":\"\xff\x9b\"}")},
	}
	for i := range entries {
		var asJSON bytes.Buffer
		if err := output.NewEncoder(&asJSON).Encode(&entries[i]); err != nil {
			t.Fatal(err)
		}
		var back struct {
			Payload any    `json:"payload_json"`
			Error   string `json:"error"`
		}
		if err := json.Unmarshal(asJSON.Bytes(), &back); err != nil || back.Error != entries[i].Error {
			t.Errorf("row %d came back as %+v (%v)", i+1, back, err)
		}
		for _, text := range []string{
			strings.TrimSuffix(asJSON.String(), "\n"), newRowLayout(false, 0, new(view.Titles)).line(&entries[i]), newRowLayout(false, 200, new(view.Titles)).line(&entries[i]),
		} {
			if strings.ContainsFunc(text, output.ControlsTerminal) || strings.ContainsRune(text, '\x1b') || !utf8.ValidString(text) {
				t.Errorf("row %d is shown as %q", i+1, text)
			}
		}
	}
}

func FuzzParseTime(f *testing.F) {
	f.Add("15m")
	f.Add("1e300d")
	f.Add("2026-02-17T12:00:00Z")
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := logs.ParseTime("since", text, testTime); err == nil && text != "" && at.IsZero() && !strings.HasPrefix(text, "0001") {
			t.Errorf("%q is no time at all", text)
		}
	})
}

func TestWaterfall_DrawsChain(t *testing.T) {
	var rows []activitylog.Row
	rows = append(rows, messageRows(0, "m1", "tg_message", "tg:1", "agent:a", `{"text":"hello","sourceId":"e"}`, 20*time.Millisecond, "agent:a", "agent:b!timeout")...)
	rows = append(rows, messageRows(40*time.Millisecond, "m2", "tg_reply", "agent:a", "tg:1", `{"text":"hi\u001b[31m","inReplyTo":"e"}`, 40*time.Millisecond, "tg:bot")...)
	late := messageRows(99*time.Millisecond, "m3", "delivery_status", "tg:1", "agent:a", `{"messageId":"m2"}`, time.Millisecond, "agent:a")
	rows = append(rows, late[:2]...) // under way
	r := newLog(t, rows...)
	c, err := chain.Find(t.Context(), r, "m1", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWaterfall(c, new(view.Titles), false, 0)
	w.bar = 20
	want := []string{
		"                                    0              99 ms",
		"tg_message tg:1 → agent:a           ████                     +0 µs    20 ms  ok",
		"  ↳ agent:a                         ████                     +0 µs    20 ms  ok",
		"  ↳ agent:b                         ████                     +0 µs    20 ms  timeout",
		"  tg_reply agent:a → tg:1                   ████████        +40 ms    40 ms  ok         \"hi\\x1b[31m\"",
		"    delivery_status tg:1 → agent:a                     ░    +99 ms           under way  {\"messageId\":\"m2\"}",
	}
	if diff := cmp.Diff(want, w.lines()); diff != "" {
		t.Error(diff)
	}
	var out bytes.Buffer
	p := &output.Printer{Out: &out}
	if printChain(p, c, new(view.Titles)); p.Err != nil || strings.Contains(out.String(), "\x1b") {
		t.Errorf("a text reaches the terminal as control characters: %q, %v", out.String(), p.Err)
	}
}

// TestWaterfall_CauseIsDim checks that the cause of a message is dim, and that a failure below the
// message is not.
func TestWaterfall_CauseIsDim(t *testing.T) {
	rows := messageRows(0, "m1", "tg_message", "tg:1", "agent:a", `{"text":"hello","sourceId":"e"}`, time.Millisecond, "agent:a", "agent:b!timeout")
	rows = append(rows, messageRows(time.Second, "m2", "tg_reply", "agent:a", "tg:1", `{"text":"hi","inReplyTo":"e"}`, time.Millisecond, "tg:bot")...)
	c, err := chain.Find(t.Context(), newLog(t, rows...), "m2", nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := newWaterfall(c, new(view.Titles), true, 0).lines()
	if !strings.HasPrefix(lines[1], string(term.Dim)+"tg_message") || !strings.HasPrefix(lines[3], "  "+string(term.Bold)) && !strings.HasPrefix(lines[3], string(term.Bold)) {
		t.Errorf("%q", lines)
	}
}

// TestWaterfall_DrawsWaitsAndTurns checks that waits and turns are drawn after the message with
// which they began.
func TestWaterfall_DrawsWaitsAndTurns(t *testing.T) {
	var rows []activitylog.Row
	rows = append(rows, messageRows(0, "m1", "tg_message", "tg:1", "agent:a", `{"text":"hello","sourceId":"e"}`, 5*time.Millisecond, "agent:a")...)
	record := func(at time.Duration, id, content string) {
		rows = append(rows, messageRows(at, id, "agent_event", "agent:a", "system:attention", content, time.Millisecond)...)
	}
	record(10*time.Millisecond, "m2", `{"event":"attention_decision","eventId":"e","agent":"agent:a","directedness":"to_me","policy":"may_respond","injection":"buffered","reason":"r"}`)
	record(30*time.Millisecond, "m3", `{"event":"turn","eventId":"e","agent":"agent:a","turnId":"t","state":"started"}`)
	record(99*time.Millisecond, "m4", `{"event":"turn","eventId":"e","agent":"agent:a","turnId":"t","state":"finished"}`)
	c, err := chain.Find(t.Context(), newLog(t, rows...), "m1", nil)
	if err != nil {
		t.Fatal(err)
	}
	w := newWaterfall(c, new(view.Titles), false, 0)
	w.bar = 20
	want := []string{
		"                              0             100 ms",
		"tg_message tg:1 → agent:a     █                        +0 µs   5.0 ms  ok",
		"  ↳ agent:a                   █                        +0 µs   5.0 ms  ok",
		"  attention_decision agent:a    ▏───                  +10 ms   1.0 ms  ok         decided: to_me, may_respond, buffered, because r, waited 20 ms",
		"  turn agent:a                      ▏────────────     +30 ms   1.0 ms  ok         turn started, and took 69 ms",
		"  turn agent:a                                   ▏    +99 ms   1.0 ms  ok         turn finished",
	}
	if diff := cmp.Diff(want, w.lines()); diff != "" {
		t.Error(diff)
	}
}

// TestRowLayout_FitsNarrowTerminal checks that no line is wider than the terminal, and that a longer
// row takes a second line.
func TestRowLayout_FitsNarrowTerminal(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	long := "agent:" + strings.Repeat("long", 20)
	rows := messageRows(0, "msg_01J9Z3X5Q2W8AAAAAAAAAAAAAA", "tg_message", "tg:1", "agent:a", `{"text":"hello, what is the state of the deployment to the second region?"}`, time.Millisecond, "agent:a!offline")
	rows = append(rows, messageRows(0, "msg_01J9Z3X5Q2W8BBBBBBBBBBBBBB", "collab_request", long, "collab:broker", `{"method":"identity.heartbeat"}`, time.Millisecond, "collab:broker")...)
	entries, _, err := newLog(t, rows...).After(t.Context(), read.Filter{}, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, columns := range []int{20, 80, 100, 130, 200} {
		layout := newRowLayout(false, columns, new(view.Titles))
		var got []string
		for i := range entries {
			got = append(got, strings.Split(layout.line(&entries[i]), "\n")...)
		}
		for _, line := range got {
			if columns >= 80 && term.Width(line) > columns {
				t.Errorf("in %d columns a line has %d: %s", columns, term.Width(line), line)
			}
		}
		if columns != 80 {
			continue
		}
		want := []string{
			"Tue 17 Feb 2026 UTC",
			"12:00:00.000 send_start      tg_message tg:1 → agent:a",
			"             msg_01J9Z3X5Q2W8AAAAAAAAAAAAAA \"hello, what is the state of the de…",
			"12:00:00.000 process_start   agent:a  …AAAAAA",
			"12:00:00.001 process_finish  agent:a offline  …AAAAAA",
			"12:00:00.001 send_finish     agent:a ok  …AAAAAA delivered to 1",
			"12:00:00.000 send_start      collab_request agent:longlongl… → collab:broker",
			"             msg_01J9Z3X5Q2W8BBBBBBBBBBBBBB identity.heartbeat",
			"12:00:00.000 process_start   collab:broker  …BBBBBB",
			"12:00:00.001 process_finish  collab:broker ok  …BBBBBB",
			"12:00:00.001 send_finish     collab:broker ok  …BBBBBB delivered to 1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRowLayout_AlignsColumns(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = local })
	rows := messageRows(0, "msg_01J9Z3X5Q2W8", "tg_message", "tg:1", "agent:a", `{"text":"hello, what is the state of the deployment to the second region?"}`, 1500*time.Microsecond, "agent:lead-of-all!offline")
	rows = append(rows,
		activitylog.Row{At: testTime.UnixMicro(), Event: activitylog.LogGap, Payload: []byte(`{"lost":7,"reason":"disk is full"}`), Error: "disk is full"},
		activitylog.Row{At: testTime.Add(24 * time.Hour).UnixMicro(), Event: activitylog.PeerConnected, Actor: "tg:\x1b]0;evil\x07"},
	)
	entries, _, err := newLog(t, rows...).After(t.Context(), read.Filter{}, nil, 100)
	if err != nil {
		t.Fatal(err)
	}
	layout := newRowLayout(false, 130, new(view.Titles))
	var got []string
	for i := range entries {
		got = append(got, strings.Split(layout.line(&entries[i]), "\n")...)
	}
	want := []string{
		"Tue 17 Feb 2026 UTC",
		"12:00:00.000 send_start      tg_message   tg:1       agent:a    start   msg_01J9Z3X5Q2W8 \"hello, what is the state of the deploym…",
		"12:00:00.000 process_start   tg_message   agent:lead-of-all agent:a    start   …X5Q2W8",
		"12:00:00.001 process_finish  tg_message   agent:lead-of-all agent:a    offline  …X5Q2W8",
		"12:00:00.001 send_finish     tg_message   tg:1              agent:a    ok       …X5Q2W8 delivered to 1",
		"12:00:00.000 log_gap                                                            7 rows could not be written: disk is full",
		"Wed 18 Feb 2026 UTC",
		"12:00:00.000 peer_connected               tg:�]0;evil�",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	layout.titles.Note("tg:1", "Launch crew")
	if line := layout.line(&entries[0]); !strings.Contains(line, "tg:“Launch crew”") {
		t.Errorf("the chat is not called by its title: %s", line)
	}
	coloured := newRowLayout(true, 130, new(view.Titles))
	line := coloured.line(&entries[2])
	if !strings.Contains(line, string(term.Red)+"offline") {
		t.Errorf("a failure is not red: %q", line)
	}
	for _, e := range entries {
		if line := coloured.line(&e); strings.Contains(line, "\x1b]") || strings.Contains(line, "\x07") {
			t.Errorf("%q", line)
		}
	}
}

func TestShortDurations(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0 µs", 999 * time.Microsecond: "999 µs", 4200 * time.Microsecond: "4.2 ms", 120 * time.Millisecond: "120 ms",
		2500 * time.Millisecond: "2.5 s", 125 * time.Second: "2m5s", -3 * time.Millisecond: "-3.0 ms",
	} {
		if got := view.Short(d); got != want {
			t.Errorf("%d: %q, want %q", d, got, want)
		}
	}
}

// TestReplay_TracksParticipation replays a group chat from the log alone.
func TestReplay_TracksParticipation(t *testing.T) {
	var rows []activitylog.Row
	at := time.Duration(0)
	add := func(id, typ, from, topic, content string) {
		at += time.Second
		rows = append(rows, messageRows(at, id, typ, from, topic, content, time.Millisecond, topic)...)
	}
	group := func(id, text, more string) {
		add(id, "tg_message", "tg:-5", "agent:w3", `{"text":"`+text+`","sourceId":"`+id+`","chat":{"id":"-5","kind":"thread","threadId":"T"},"author":{"id":"77"}`+more+`}`)
	}
	group("e1", "lunch?", "")
	group("e2", "@w3 status?", `,"mentions":["agent:w3"]`)
	add("r2", "tg_reply", "agent:w3", "tg:-5", `{"text":"Red. Shall I roll back?","inReplyTo":"e2"}`)
	group("e3", "@w3 ok", `,"mentions":["agent:w3"]`)
	group("e4", "any news", "")
	group("e5", "@backend-agents who?", `,"mentions":["role:backend-agents"]`)
	add("sent-again", "tg_message", "tg:-5", "agent:w3", `{"text":"lunch?","sourceId":"e1"}`)
	r := newLog(t, rows...)

	decide := func(roles ...string) []string {
		past := newHistory()
		var got []string
		err := r.Each(t.Context(), read.Filter{Events: []activitylog.Event{activitylog.SendStart}}, func(e *activitylog.Entry) error {
			c, ok := decodeChatMessage(e)
			if !ok {
				past.addRow(e)
				return nil
			}
			d := past.decide(e, c, attention.Self{ID: e.Topic, Roles: roles}, attention.Config{})
			got = append(got, c.SourceID+" "+string(d.Directedness)+" "+string(d.Injection))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	got := decide()
	want := map[string]string{
		"e1": "ambient tool_mailbox", // a stranger in the thread
		"e2": "to_me buffered",       // mentioned
		"e3": "to_me buffered",       // an answer to its own question, not thanks
		"e4": "to_my_role notify",    // it participates
	}
	for id, decision := range want {
		if !strings.Contains(strings.Join(got, "\n"), id+" "+decision) {
			t.Errorf("%s: want %s in\n%s", id, decision, strings.Join(got, "\n"))
		}
	}
	if with := decide("backend-agents"); with[4] != "e5 to_my_role notify" {
		t.Errorf("with the role: %s", with[4])
	}
}

func TestPaths_FoldersAndFiles(t *testing.T) {
	dir := t.TempDir()
	got := logs.Paths(nil, []string{dir, filepath.Join(dir, "other.db"), "nowhere"})
	want := []string{filepath.Join(dir, logs.File), filepath.Join(dir, "other.db"), "nowhere"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := logs.Explain(activitylog.ErrNoLog); !strings.Contains(err.Error(), "--data") || !errors.Is(err, activitylog.ErrNoLog) {
		t.Errorf("%v", err)
	}
}

// TestWhy_ShowsEveryRecordKind checks that records of every kind are shown.
func TestWhy_ShowsEveryRecordKind(t *testing.T) {
	var rows []activitylog.Row
	for i, content := range []string{
		`{"event":"claim","granted":false,"owner":"agent:b"}`, `{"event":"claim","granted":true,"owner":"agent:a","token":7,"via":"broker"}`,
		`{"event":"delivery","messageId":"m-reply","kind":"text","status":"failed","reason":"blocked"}`,
		`{"event":"escalation","with":"agent:b","reason":"exchange_limit"}`, `{"event":"progress","message":"half done"}`,
		`{"event":"turn","turnId":"t","state":"finished","attempt":1}`, `{"event":"mood","reason":{"not":"a text"}}`,
	} {
		content = `{"eventId":"e1","agent":"agent:a",` + strings.TrimPrefix(content, "{")
		rows = append(rows, messageRows(time.Duration(i)*time.Second, fmt.Sprintf("m%d", i), "agent_event", "agent:a", "system:attention", content, time.Millisecond)...)
	}
	r := newLog(t, rows...)
	why := func(json bool) string {
		var out bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetContext(t.Context())
		cmd.SetOut(&out)
		cmd.Flags().Bool("json", json, "")
		if err := printWhy(cmd, r, read.AttentionFilter{EventID: "e1"}, nil); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	text, asJSON := why(false), why(true)
	for _, want := range []string{
		"lost the claim to agent:b", "claimed: token 7, by the broker", "delivery of text m-reply: failed, because blocked",
		"escalated: a person was called into the exchange with agent:b, because exchange_limit (two agents exchanged many messages without a person)",
		"progress: half done", "turn finished", "recorded mood",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("why does not say %q:\n%s", want, text)
		}
	}
	for _, want := range []string{`"claims":[{`, `"deliveries":[{`, `"sent":"m-reply"`, `"escalations":[{`, `"others":[{`} {
		if !strings.Contains(asJSON, want) {
			t.Errorf("as JSON it lacks %s: %s", want, asJSON)
		}
	}
}
