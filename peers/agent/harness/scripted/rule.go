package scripted

import (
	"regexp"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// An action is what a rule decides to do with an event.
type action string

const (
	actNothing action = "nothing"
	actReact   action = "react"   // arg: signal
	actPull    action = "pull"    // read the thread, then claim or not
	actWork    action = "work"    // arg: what
	actDefer   action = "defer"   // arg: reason
	actClarify action = "clarify" // unclear, and a question
	actCatchUp action = "catch up"
	actRecap   action = "recap"
	actSay     action = "say" // arg: text
)

// A decision is an action with its argument and the rule's name as reason.
type decision struct {
	act  action
	arg  string
	rule string
}

// decide applies the rules to an event. It is pure.
func decide(e *harness.Event) decision {
	text := textOf(e)
	switch {
	case e.Digest || e.Policy == "must_not_respond":
		return decision{actNothing, "", "no reply is allowed"}
	case e.Policy == "ack_only":
		return decision{actReact, "seen", "a receipt is enough"}
	case e.Knock != nil:
		return decision{actPull, "", "a knock"}
	case e.Policy == "may_respond" && !asks(text):
		return decision{actNothing, "", "nothing was asked"}
	case strings.Contains(e.Reason, "approval"):
		return decision{actReact, "agree", "an approval"}
	}
	return decideText(text, e)
}

// textRule maps the words of an event to a decision.
type textRule struct {
	name  string
	match *regexp.Regexp
	make  func(match []string) decision
}

func fixed(act action, arg string) func([]string) decision {
	return func([]string) decision { return decision{act: act, arg: arg} }
}

var signals = []string{"seen", "agree", "working", "queued", "claimed", "done", "declined", "blocked", "unclear"}

var textRules = []textRule{
	{"an acknowledgement", regexp.MustCompile(`^(thanks|thank you|thx|got it|nice|ok|okay|great|cool)$`), fixed(actReact, "seen")},
	{"a reaction by name", regexp.MustCompile(`^react (` + strings.Join(signals, "|") + `)$`), func(m []string) decision { return decision{act: actReact, arg: m[1]} }},
	{"not for this agent", regexp.MustCompile(`\b(not you|wrong agent)\b`), fixed(actReact, "declined")},
	{"unclear", regexp.MustCompile(`^(please )?(do|fix|check|run|deploy) (it|this|that|that one)( please)?$`), fixed(actClarify, "")},
	{"for later", regexp.MustCompile(`\b(later|when you have time|no hurry|tomorrow)\b`), func(m []string) decision { return decision{act: actDefer, arg: "asked for " + m[1]} }},
	{"work", regexp.MustCompile(`(?s)^(?:(?:please|can you|could you|now) )*(work on|fix|build|deploy|refactor|implement|investigate) (.+)$`), func(m []string) decision { return decision{act: actWork, arg: m[2]} }},
	{"catching up", regexp.MustCompile(`\b(catch up|catch me up|what did i miss|list events|what is open)\b`), fixed(actCatchUp, "")},
	{"a recap", regexp.MustCompile(`\b(recap|summari[sz]e|read the thread|who said)\b`), fixed(actRecap, "")},
	{"who this is", regexp.MustCompile(`\b(who are you|what are you|what can you do)\b|^help$`), fixed(actSay, "I follow a few fixed rules: I answer questions by repeating them, react to `work on ...` and thanks, defer what is for `later`, count what you missed on `catch up`, and stay silent where nobody asked me.")},
	{"a greeting", regexp.MustCompile(`^(hi|hello|hey|good (morning|evening))\b[^?]*$`), fixed(actSay, "Hello.")},
}

func decideText(said string, e *harness.Event) decision {
	plain := normalize(said)
	for _, r := range textRules {
		if m := r.match.FindStringSubmatch(plain); m != nil {
			d := r.make(m)
			d.rule = r.name
			return d
		}
	}
	fragments := ""
	if len(e.MergedEventIDs) > 1 {
		fragments = " (in " + text.Count(len(e.MergedEventIDs), "piece") + ", taken as one)"
	}
	switch {
	case strings.Contains(said, "?"):
		return decision{actSay, "You asked" + fragments + ": “" + quoted(said, 300) + "” A rule cannot know the answer, but I heard you.", "a question"}
	case said == "":
		return decision{actReact, "seen", "no text"}
	default:
		return decision{actSay, "I read" + fragments + ": “" + quoted(said, 300) + "”", "anything else"}
	}
}

var request = regexp.MustCompile(`\b(please|can you|could you|can someone|help|work on|fix|look at|need|must|who can)\b`)

// asks reports whether a text wants something from its reader.
func asks(text string) bool {
	return strings.Contains(text, "?") || request.MatchString(normalize(text))
}

var mention = regexp.MustCompile(`(^|\s)@[\w.:#-]+`)

// normalize lowers a text and cuts mentions, and punctuation at both ends.
func normalize(said string) string {
	said = strings.ToLower(mention.ReplaceAllString(said, " "))
	return text.Line(strings.Trim(said, " \t\n.,;:!?…'\"()"))
}

// textOf joins the text parts of an event as they were written.
func textOf(e *harness.Event) string {
	var parts []string
	for _, p := range e.Content {
		if p.Type == "text" && p.Text != "" {
			parts = append(parts, p.Text)
		}
	}
	return strings.TrimSpace(strings.Join(parts, "\n"))
}

// quoted shortens a text to n characters, in one line.
func quoted(said string, n int) string { return text.Clip(text.Line(said), n) }
