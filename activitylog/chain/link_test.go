package chain

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/internal/logtest"
	"hubbub/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestCluesOf(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for payload, want := range map[string]clues{
		`{"type":"tg_reply","from":"agent:a","inReplyTo":"x","content":{"inReplyTo":"y","eventId":"z"}}`: {typ: "tg_reply", from: "agent:a", answers: []string{"x", "y", "z"}},
		`{"type":"tg_reply","from":"agent:a","inReplyTo":"m"}`:                                           {typ: "tg_reply", from: "agent:a"}, // itself
		`{"type":"tg_message","from":"tg:1","content":{"sourceId":"s","createdAt":"2026-02-17T12:00:00Z","requestId":"r"}}`: {
			typ: "tg_message", from: "tg:1", sourceID: "s", createdAt: logtest.Epoch, requestID: "r", route: "tg:1\x00agent:t"},
		`{"type":"chat_message","from":"tg:1","content":{"createdAt":"noon"}}`:                                {typ: "chat_message", from: "tg:1", sourceID: "m", route: "tg:1\x00agent:t"},
		`{"type":"chat_message","content":{}}`:                                                                {typ: "chat_message", sourceID: "m"},
		`{"type":"configure","from":"tg:1","content":{"talkTo":"tg:2"}}`:                                      {typ: "configure", from: "tg:1", route: "tg:2\x00agent:t"},
		`{"type":"configure","from":"tg:1","content":{}}`:                                                     {typ: "configure", from: "tg:1"},
		`{"type":"route_assigned","from":"agent:s","content":{"topic":"tg:1","agent":"agent:a"}}`:             {typ: "route_assigned", from: "agent:s", route: "tg:1\x00agent:a"},
		`{"type":"route_assigned","from":"agent:s","content":{"topic":"tg:1"}}`:                               {typ: "route_assigned", from: "agent:s"},
		`{"type":"delivery_status","from":"tg:1","content":{"messageId":"x","sourceId":"y","inReplyTo":"z"}}`: {typ: "delivery_status", from: "tg:1", answers: []string{"x", "y", "z"}},
		`{"type":"tg_reply","from":"tg:1","content":{"messageId":"x","sourceId":"y"}}`:                        {typ: "tg_reply", from: "tg:1"},
		`{"type":"tg_reply","traceparent":"00-` + trace + `-b7ad6b7169203331-01"}`:                            {typ: "tg_reply", trace: trace},
		`{"type":"tg_reply","traceparent":"00-` + trace + `-b7ad6b7169203331"}`:                               {typ: "tg_reply"},
		`{"type":"tg_reply","traceparent":"00-` + trace + `0-b7ad6b7169203331-01-more"}`:                      {typ: "tg_reply"},
		`{"type":"tg_reply","traceparent":"00-` + trace + `-b7ad6b7169203331-01-more"}`:                       {typ: "tg_reply", trace: trace},
		`?`: {},
	} {
		want.id, want.topic, want.at = "m", "agent:t", logtest.Epoch
		got := cluesOf(&activitylog.Entry{MessageID: "m", Topic: "agent:t", TS: protocol.FormatTime(logtest.Epoch), Payload: []byte(payload)})
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(clues{})); diff != "" {
			t.Errorf("%s:\n%s", payload, diff)
		}
	}
}

// TestParent_FindsMostReliableCause checks that the most reliable relation decides: the last
// matching message before it, or else the first one after it.
func TestParent_FindsMostReliableCause(t *testing.T) {
	at := func(minutes int) time.Time { return logtest.Epoch.Add(time.Duration(minutes) * time.Minute) }
	answer := func(id string, answers ...string) clues { return clues{id: id, from: "agent:a", answers: answers} }
	chat := func(id, topic, source string) clues {
		return clues{id: id, typ: protocol.TypeTGMessage, from: "tg:1", topic: topic, sourceID: source, route: "tg:1\x00" + topic}
	}
	request := func(id string, typ protocol.MessageType, r string) clues {
		return clues{id: id, typ: typ, requestID: r}
	}
	route := func(id string, typ protocol.MessageType) clues {
		return clues{id: id, typ: typ, route: "tg:1\x00agent:a", at: at(10)}
	}
	late := func(c clues, minutes int) clues { c.createdAt = at(minutes); return c }
	traced := func(c clues) clues { c.trace = "t"; return c }
	for name, c := range map[string]struct {
		all  []clues
		want string // the cause of each
	}{
		"nothing":                          {[]clues{answer("a"), answer("b", "x")}, "- -"},
		"an answer":                        {[]clues{answer("a"), answer("b", "a")}, "- a:answers"},
		"the surest of two":                {[]clues{answer("a"), answer("b"), answer("c", "b", "a")}, "- - b:answers"},
		"one of two is known":              {[]clues{answer("a"), answer("c", "b", "a")}, "- a:answers"},
		"by a source":                      {[]clues{chat("a", "agent:b", "s"), answer("b", "s")}, "- a:answers"},
		"by the source that came to it":    {[]clues{chat("a", "agent:a", "s"), chat("b", "agent:b", "s"), answer("c", "s")}, "- - a:answers"},
		"by its id before a source":        {[]clues{chat("s", "agent:b", "x"), chat("b", "agent:a", "s"), answer("c", "s")}, "- - s:answers"},
		"the last of two sources":          {[]clues{chat("a", "agent:a", "s"), chat("b", "agent:a", "s"), answer("c", "s")}, "- - b:answers"},
		"one that comes later":             {[]clues{answer("b", "a"), answer("a"), answer("a")}, "a:answers - -"},
		"the first of those later":         {[]clues{answer("c", "s"), chat("a", "agent:a", "s"), chat("b", "agent:a", "s")}, "a:answers - -"},
		"none later, if one is before":     {[]clues{chat("a", "agent:a", "s"), answer("c", "s"), chat("b", "agent:a", "s")}, "- a:answers -"},
		"itself, sent twice":               {[]clues{chat("a", "agent:a", "s"), chat("a", "agent:b", "s"), {id: "a", answers: []string{"s"}}}, "- - -"},
		"the result of a spawn":            {[]clues{request("a", protocol.TypeSpawnRequest, "r"), request("b", protocol.TypeSpawnResult, "r")}, "- a:requestId"},
		"a route that was asked for":       {[]clues{request("a", protocol.TypeSpawnRequest, "r"), request("b", protocol.TypeRouteAssigned, "r")}, "- a:requestId"},
		"the result of work":               {[]clues{request("a", protocol.TypeCollabRequest, "r"), request("b", protocol.TypeCollabResult, "r")}, "- a:requestId"},
		"another request":                  {[]clues{request("a", protocol.TypeSpawnRequest, "q"), request("b", protocol.TypeSpawnResult, "r")}, "- -"},
		"a request of no id":               {[]clues{request("a", protocol.TypeSpawnRequest, ""), request("b", protocol.TypeSpawnResult, "")}, "- -"},
		"a result is no request":           {[]clues{request("a", protocol.TypeSpawnResult, "r"), request("b", protocol.TypeSpawnResult, "r")}, "- -"},
		"what answers no request":          {[]clues{request("a", protocol.TypeSpawnRequest, "r"), request("b", protocol.TypeTGReply, "r")}, "- -"},
		"configured by its route":          {[]clues{route("a", protocol.TypeRouteAssigned), route("b", protocol.TypeConfigure)}, "- a:route"},
		"the first chat message":           {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s")}, "- a:bootstrap"},
		"of another chat":                  {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:b", "s")}, "- -"},
		"the second, written later":        {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), late(chat("c", "agent:a", "t"), 11)}, "- a:bootstrap -"},
		"the second, written at the time":  {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), late(chat("c", "agent:a", "t"), 10)}, "- a:bootstrap -"},
		"the second, written before":       {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), late(chat("c", "agent:a", "t"), 9)}, "- a:bootstrap a:bootstrap"},
		"the second, of no time":           {[]clues{route("a", protocol.TypeConfigure), chat("b", "agent:a", "s"), chat("c", "agent:a", "t")}, "- a:bootstrap -"},
		"one trace":                        {[]clues{traced(answer("a")), traced(answer("b")), traced(answer("c"))}, "- a:trace a:trace"},
		"an answer in a trace":             {[]clues{traced(answer("a")), traced(answer("b")), traced(answer("c", "b"))}, "- a:trace b:answers"},
		"a trace of others":                {[]clues{traced(answer("a")), answer("b")}, "- -"},
		"two of one cause, told by one id": {[]clues{answer("a"), answer("b", "a"), answer("b", "a")}, "- a:answers a:answers"},
	} {
		l := newLinker(c.all)
		var got []string
		for i := range c.all {
			cause, reason := l.parent(i)
			if cause < 0 {
				got = append(got, "-")
			} else {
				got = append(got, c.all[cause].id+":"+reason)
			}
		}
		if s := strings.Join(got, " "); s != c.want {
			t.Errorf("%s: %s; want %s", name, s, c.want)
		}
	}
}

// TestPlanChain_ListsEachStepOnce checks causes and effects, each once, up to the
// requested number.
func TestPlanChain_ListsEachStepOnce(t *testing.T) {
	answer := func(id string, answers ...string) clues { return clues{id: id, answers: answers} }
	all := []clues{answer("root"), answer("a", "root"), answer("b", "a"), answer("c", "b"), answer("d", "b"), answer("e", "c"), answer("f"), answer("a", "root")}
	loop := []clues{answer("x", "y"), answer("y", "x"), answer("z", "y")}
	for _, c := range []struct {
		all   []clues
		id    string
		limit int
		want  string
		cut   bool
	}{
		{all, "root", 9, "| root0 a1 b2 c3 e4 d3", false},
		{all, "b", 9, "root0 a1 | b2 c3 e4 d3", false},
		{all, "b", 4, "root0 a1 | b2 c3 e4 d3", false},
		{all, "b", 3, "root0 a1 | b2 c3 e4", true},
		{all, "b", 1, "root0 a1 | b2", true},
		{all, "f", 1, "| f0", false},
		{all, "e", 1, "root0 a1 b2 c3 | e4", false},
		{all, "nobody", 9, "|", false},
		{loop, "x", 9, "y0 | x1", false},
		{loop, "z", 9, "x0 y1 | z2", false},
	} {
		chain := planChain(c.all, c.id, c.limit)
		got := ""
		for _, s := range chain.Causes {
			got += fmt.Sprint(s.ID, s.Depth, " ")
		}
		got += "|"
		for _, s := range chain.Steps {
			got += fmt.Sprint(" ", s.ID, s.Depth)
		}
		if got != c.want || chain.Cut != c.cut {
			t.Errorf("of %s, at most %d: %s, cut %t; want %s", c.id, c.limit, got, chain.Cut, c.want)
		}
	}
}
