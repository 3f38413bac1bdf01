package harness_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox/reminders"
	"hubbub/peers/attention"
)

// A replier is a person who answers questions by the next of their words; without more of them,
// they decline.
type replier struct {
	words, asked []string
	reader       *attention.AnswerReader
}

func (*replier) Sensitive(string) bool { return false }

func (r *replier) Approve(ctx context.Context, tool string, question json.RawMessage) error {
	_, err := r.Ask(ctx, tool, question)
	return err
}

func (r *replier) Ask(_ context.Context, name string, question json.RawMessage) (string, error) {
	r.asked = append(r.asked, name+" "+string(question))
	if len(r.words) == 0 {
		return "", errors.New("denied")
	}
	words := r.words[0]
	r.words = r.words[1:]
	return words, nil
}

func (r *replier) Read(words string) attention.Answer { return r.reader.Read(words) }

func (*replier) ReadTime(words string) (time.Time, error) {
	now := time.Date(2026, 11, 28, 10, 56, 0, 0, time.FixedZone("", 3600))
	return reminders.ParseTime(words, now.Location(), now)
}

func newReplier(words ...string) *replier {
	known := attention.DefaultWords()
	return &replier{words: words, reader: attention.NewAnswerReader(&known)}
}

// TestElicit_ReadsWords covers values of every type, named or not, in words of several languages.
// The question is repeated once after an unsuitable answer, with the reason.
func TestElicit_ReadsWords(t *testing.T) {
	one := func(field string) string {
		return `{"type":"object","properties":{"x":` + field + `},"required":["x"]}`
	}
	const two = `{"type":"object","properties":{"city":{"type":"string","title":"Town"},"nights":{"type":"integer","minimum":1,"maximum":9},"pets":{"type":"boolean"}},"required":["city","nights"]}`
	for name, c := range map[string]struct {
		schema string
		words  []string
		want   string
		asked  int
	}{
		"text":                  {one(`{"type":"string"}`), []string{"release/2.1"}, `accept {"x":"release/2.1"}`, 1},
		"lines of text":         {one(`{"type":"string"}`), []string{"Dear Ann,\nsee you: soon"}, `accept {"x":"Dear Ann,\nsee you: soon"}`, 1},
		"not required":          {`{"type":"object","properties":{"x":{"type":"string"}}}`, []string{"Bonn"}, `accept {"x":"Bonn"}`, 1},
		"no":                    {one(`{"type":"string"}`), []string{"Nein, danke"}, "decline null", 1},
		"no as a choice":        {one(`{"type":"string","enum":["yes","no","later"]}`), []string{"No"}, `accept {"x":"no"}`, 1},
		"a choice":              {one(`{"type":"string","enum":["small","large"]}`), []string{"Large"}, `accept {"x":"large"}`, 1},
		"a titled choice":       {one(`{"type":"string","oneOf":[{"const":"eu1","title":"Europe"},{"const":"us1","title":"America"}]}`), []string{"europe"}, `accept {"x":"eu1"}`, 1},
		"an old title":          {one(`{"type":"string","enum":["r","g"],"enumNames":["Red","Green"]}`), []string{"green"}, `accept {"x":"g"}`, 1},
		"several":               {one(`{"type":"array","items":{"type":"string","enum":["mon","tue","wed"]}}`), []string{"Mon, wed"}, `accept {"x":["mon","wed"]}`, 1},
		"a whole number":        {one(`{"type":"integer"}`), []string{"42"}, `accept {"x":42}`, 1},
		"a fraction":            {one(`{"type":"number"}`), []string{"-0.5"}, `accept {"x":-0.5}`, 1},
		"a number, again":       {one(`{"type":"integer","minimum":1}`), []string{"0", "3"}, `accept {"x":3}`, 2},
		"never a number":        {one(`{"type":"integer"}`), []string{"many", "more"}, "cancel null", 2},
		"a mail address, again": {one(`{"type":"string","format":"email"}`), []string{"ann", "ann@example.org"}, `accept {"x":"ann@example.org"}`, 2},
		"a date":                {one(`{"type":"string","format":"date"}`), []string{"2026-02-30", "2026-02-28"}, `accept {"x":"2026-02-28"}`, 2},
		"a day":                 {one(`{"type":"string","format":"date"}`), []string{"tomorrow"}, `accept {"x":"2026-11-29"}`, 1},
		"a weekday":             {one(`{"type":"string","format":"date"}`), []string{"next Friday"}, `accept {"x":"2026-12-04"}`, 1},
		"a written date":        {one(`{"type":"string","format":"date"}`), []string{"3 May 2027"}, `accept {"x":"2027-05-03"}`, 1},
		"a dotted date":         {one(`{"type":"string","format":"date"}`), []string{"31.1.2027"}, `accept {"x":"2027-01-31"}`, 1},
		"a clear date, again":   {one(`{"type":"string","format":"date"}`), []string{"03/04/2027", "Apr 3, 2027"}, `accept {"x":"2027-04-03"}`, 2},
		"a time":                {one(`{"type":"string","format":"date-time"}`), []string{"Monday at half past nine"}, `accept {"x":"2026-11-30T09:30:00+01:00"}`, 1},
		"a duration":            {one(`{"type":"string","format":"date-time"}`), []string{"in 2 hours"}, `accept {"x":"2026-11-28T12:56:00+01:00"}`, 1},
		"no time, again":        {one(`{"type":"string","format":"date-time"}`), []string{"soon", "2027-01-31T09:00:00Z"}, `accept {"x":"2027-01-31T09:00:00Z"}`, 2},
		"too short":             {one(`{"type":"string","minLength":4}`), []string{"abc", "abcd"}, `accept {"x":"abcd"}`, 2},
		"two lines":             {two, []string{"town: Bonn\nNights = 3"}, `accept {"city":"Bonn","nights":3}`, 1},
		"three lines":           {two, []string{"city: Köln\nnights: 2\npets: ja"}, `accept {"city":"Köln","nights":2,"pets":true}`, 1},
		"an object":             {two, []string{`{"city": "Ulm", "nights": 1, "pets": false}`}, `accept {"city":"Ulm","nights":1,"pets":false}`, 1},
		"one of two, again":     {two, []string{"Bonn", "city: Bonn\nnights: 4"}, `accept {"city":"Bonn","nights":4}`, 2},
		"none required, again":  {`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}}}`, []string{"hello", "b: hello"}, `accept {"b":"hello"}`, 2},
		"one missing":           {two, []string{"city: Bonn", "no"}, "decline null", 2},
		"a yes":                 {one(`{"type":"boolean"}`), []string{"yes"}, `accept {"x":true}`, 1},
		"declined":              {two, nil, "decline null", 1},
		"too many fields":       {`{"type":"object","properties":{` + manyFields(21) + `}}`, []string{"x"}, "cancel null", 0},
		"too long a form":       {one(`{"type":"string","description":"` + strings.Repeat("x", 3000) + `"}`), []string{"x"}, "cancel null", 0},
		"no schema":             {`[]`, []string{"x"}, "cancel null", 0},
	} {
		t.Run(name, func(t *testing.T) {
			p := newReplier(c.words...)
			action, content := harness.Elicit(t.Context(), p, "deploy.run", "What?", json.RawMessage(c.schema))
			raw, err := json.Marshal(content)
			if got := action + " " + string(raw); err != nil || got != c.want || len(p.asked) != c.asked {
				t.Errorf("%s after %q; want %s after %d", got, p.asked, c.want, c.asked)
			}
			if len(p.asked) == 2 && (!strings.Contains(p.asked[1], `"problem":"`) || strings.Contains(p.asked[1], `: : `)) {
				t.Errorf("asked again without what was wrong: %s", p.asked[1])
			}
		})
	}
}

func manyFields(n int) string {
	var list []string
	for i := range n {
		list = append(list, `"f`+strings.Repeat("x", i)+`":{"type":"string"}`)
	}
	return strings.Join(list, ",")
}

// TestElicit_ShowsTheForm checks that the question names each field with its type, and explains
// how to answer several.
func TestElicit_ShowsTheForm(t *testing.T) {
	p := newReplier()
	harness.Elicit(t.Context(), p, "hotel.book", "Which room?", json.RawMessage(`{"type":"object","required":["size","nights"],"properties":{
		"size":{"type":"string","enum":["single","double"],"description":"of the room"},"nights":{"type":"integer","minimum":1,"maximum":9},
		"breakfast":{"type":"boolean","default":true},"from":{"type":"string","format":"date"}}}`))
	want := `form:hotel.book {"asks":"Which room?","wants":["nights: a whole number, at least 1, at most 9","size: one of: single, double (of the room)",` +
		`"breakfast: yes or no, else true","from: a date such as 2026-01-31 or tomorrow, if you like"],"form":"a line for each: name: value"}`
	if len(p.asked) != 1 || p.asked[0] != want {
		t.Errorf("asked %s\nwant  %s", p.asked, want)
	}
}
