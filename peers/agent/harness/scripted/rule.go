package scripted

import (
	"regexp"
	"strings"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"
)

// An action is what a rule does about an event. It returns the text to send, or "". Its argument
// is what the rule found in the event.
type action func(p *execution, arg string) string

func react(signal string) action {
	return func(p *execution, _ string) string { return p.react(signal) }
}

func say(text string) action { return func(*execution, string) string { return text } }

// matchRule returns the action of the first rule that matches an event, and the action's argument.
func matchRule(t *harness.Turn) (do action, arg string) {
	e := &t.Event
	content := textOf(e)
	switch {
	case e.Reason == "undelivered":
		return say(""), "" // rules cannot rephrase
	case e.Digest || e.Policy == "must_not_respond":
		return say(""), ""
	case e.Policy == "ack_only":
		return react("seen"), ""
	case e.Reason == "reaction_proceeds":
		return say("Then I go on."), ""
	case e.Knock != nil:
		return (*execution).handleKnock, ""
	case e.Policy == "may_respond" && !isRequest(content):
		return say(""), ""
	case strings.Contains(e.Reason, "approval"):
		return react("agree"), ""
	}
	if next := nextDiscussionLine(e, content); next != "" {
		return say(next), ""
	}
	for _, r := range textRules {
		switch m := r.match().FindStringSubmatch(normalize(content)); {
		case m == nil:
		case r.name == laterRule && t.Deferrals > 0:
			return say("It is later now: “" + quote(content, 300) + "”"), ""
		default:
			return r.do, m[len(m)-1]
		}
	}
	fragments := ""
	if len(e.MergedEventIDs) > 1 {
		fragments = " (in " + text.Counted(len(e.MergedEventIDs), "piece") + ", taken as one)"
	}
	switch {
	case strings.Contains(content, "?"):
		return say(
			"You asked" + fragments + ": “" + quote(content, 300) + "” A rule cannot know the answer, but I heard you.",
		), ""
	case content == "":
		return react("seen"), ""
	default:
		return say("I read" + fragments + ": “" + quote(content, 300) + "”"), ""
	}
}

const (
	signalPattern = "seen|agree|working|queued|claimed|done|declined|blocked|unclear"
	laterRule     = "for later"
	helpText      = "I follow a few fixed rules: I answer questions by repeating them, react to `work on ...` and " +
		"thanks, defer anything for `later`, " +
		"count what you missed on `catch up`, and stay silent if nobody asked me."
)

// textRules match the text of an event. The last group of match is the argument.
var textRules = []struct {
	name  string
	match func() *regexp.Regexp
	do    action
}{
	{"a discussion", discussPattern, (*execution).discuss},
	{
		"an acknowledgement",
		text.Pattern(`^(thanks|thank you|thx|got it|nice|ok|okay|great|cool)$`),
		react("seen"),
	},
	{"a reaction by name", text.Pattern(`^react (` + signalPattern + `)$`), (*execution).react},
	{"not for this agent", text.Pattern(`\b(not you|wrong agent)\b`), react("declined")},
	{
		"unclear",
		text.Pattern(`^(please )?(do|fix|check|run|deploy) (it|this|that|that one)( please)?$`),
		(*execution).clarify,
	},
	{laterRule, text.Pattern(`\b(later|when you have time|no hurry|tomorrow)\b`), (*execution).deferEvent},
	{
		"work",
		text.Pattern(
			`(?s)^(?:(?:please|can you|could you|now) )*(work on|fix|build|deploy|refactor|implement|investigate) (.+)$`,
		),
		(*execution).work,
	},
	{
		"catching up",
		text.Pattern(`\b(catch up|catch me up|what did i miss|list events|what is open)\b`),
		(*execution).catchUp,
	},
	{"a recap", text.Pattern(`\b(recap|summari[sz]e|read the thread|who said)\b`), (*execution).recap},
	{"who this is", text.Pattern(`\b(who are you|what are you|what can you do)\b|^help$`), say(helpText)},
	{"a greeting", text.Pattern(`^(hi|hello|hey|good (morning|evening))\b[^?]*$`), say("Hello.")},
}

var requestPattern = text.Pattern(
	`\b(please|can you|could you|can someone|help|work on|fix|look at|need|must|who can)\b`,
)

// isRequest reports whether a text asks its reader for something.
func isRequest(text string) bool {
	return strings.Contains(text, "?") || requestPattern().MatchString(normalize(text))
}

var mentionPattern = text.Pattern(`(^|\s)@[\w.:#-]+`)

// normalize lowercases a text and removes mentions, and punctuation at both ends.
func normalize(s string) string {
	s = strings.ToLower(mentionPattern().ReplaceAllString(s, " "))
	return text.OneLine(strings.Trim(s, " \t\n.,;:!?…'\"()"))
}

// textOf joins the text parts of an event unchanged.
func textOf(e *harness.Event) string {
	var parts []string
	for _, p := range e.Content {
		if p.Type == "text" && p.Text != "" {
			parts = append(parts, p.Text)
		}
	}
	return strings.TrimSpace(strings.Join(parts, "\n"))
}

// quote shortens a text to n characters on one line. It removes mentions: a quoted mention must
// not mention anybody again.
func quote(s string, n int) string {
	return text.Clip(text.OneLine(strings.ReplaceAll(s, "@", "")), n)
}
