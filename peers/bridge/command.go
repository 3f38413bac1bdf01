package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"hubbub/peers/attention"
	"hubbub/peers/collab"
	"hubbub/peers/outbox"
	"hubbub/peers/store"
	"hubbub/protocol"
	contract "hubbub/protocol/collab"
)

// A CommandAdapter connects chat commands with one chat system; see Options.Commands.
type CommandAdapter interface {
	// Post shows a text of the bridge itself in a chat, once per key.
	Post(tx *store.Tx, chat protocol.PeerID, thread, key, text string)
	// People returns the people whom a name may mean in a chat.
	People(tx *store.Tx, chat protocol.PeerID, name string) []protocol.PeerID
	// DisplayName returns the name by which people know a person, or "".
	DisplayName(tx *store.Tx, person protocol.PeerID) string
}

// A Command is a request to the broker that a person made in a chat.
type Command struct {
	Verb   string          `json:"verb"`
	Text   string          `json:"text,omitempty"`
	By     protocol.PeerID `json:"by"`               // the person
	Thread string          `json:"thread,omitempty"` // in the terms of the adapter
	Kind   string          `json:"kind"`             // of the conversation: dm, group or thread
	Title  string          `json:"title,omitempty"`
	Key    string          `json:"key"` // of the message: a repeated attempt changes nothing
}

// KindOf returns the kind of a chat for commands.
func KindOf(isDirect bool) string {
	if isDirect {
		return "dm"
	}
	return "group"
}

// The verbs of commands.
const (
	VerbWork = "work" // list, show, create or assign work
	VerbWho  = "who"  // list agents
	VerbAsk  = "ask"  // ask an agent or a person
	VerbDone = "done" // close work or answer a question
	VerbSay  = "say"  // send a message to the agent that it names first and that is not in the chat
)

// handlers has the handler of each verb. It returns the text to show in the chat.
var handlers = map[string]func(*commandAttempt) (string, error){
	VerbWork: (*commandAttempt).work,
	VerbWho:  (*commandAttempt).listAgents,
	VerbAsk:  (*commandAttempt).askQuestion,
	VerbDone: (*commandAttempt).finish,
	VerbSay:  (*commandAttempt).forwardMessage,
}

// ParseCommand returns the verb of a text such as "/work list", and the rest of the text.
// The verb is empty if the text is not a command for the broker. prefix starts commands.
func ParseCommand(prefix, text string) (verb, rest string) {
	command, rest, _ := strings.Cut(strings.Replace(strings.TrimSpace(text), "\n", " ", 1), " ")
	verb, found := strings.CutPrefix(command, prefix)
	if verb = strings.ToLower(verb); !found || handlers[verb] == nil || verb == VerbSay {
		return "", ""
	}
	return verb, strings.TrimSpace(rest)
}

// halts are the commands that halt the agents of a chat, and the halt of [Router.Halt].
var halts = map[string]string{"halt": "on", "resume": "off"}

// ParseHalt returns the halt that a text commands: "on", "off", or "" for other texts, such as
// "/halt the build". prefix starts commands.
func ParseHalt(prefix, text string) string {
	command, found := strings.CutPrefix(strings.TrimSpace(text), prefix)
	word, rest := SplitCommand(command)
	if !found || IsQuestion(word, rest) {
		return ""
	}
	return halts[word]
}

// SplitCommand splits a command into its first word, in lower case and without the signs that may
// follow it, as in "!stop!", and the rest.
func SplitCommand(command string) (word, rest string) {
	end := strings.IndexFunc(command+" ", unicode.IsSpace)
	return strings.TrimRight(strings.ToLower(command[:end]), ",.;:!?…，。；：！？"), strings.TrimSpace(command[end:])
}

// wordless are the commands that take no words. Words of fillers may follow them without changing
// them, as courtesies may.
var (
	wordless = []string{"start", "help", "status", "agents", "who", "stop", "halt", "resume"}
	fillers  = append(
		strings.Fields("please pls now immediately asap it that this all everything everyone thanks thank you "+
			"jetzt sofort alle alles maintenant tout ahora ya mismo todo todos agora mesmo tudo adesso subito tutto tutti "+
			"сейчас прямо немедленно все зараз негайно всі усе الان فورا همه الآن الكل sekarang segera semua अभी सब hozir "+
			"darhol hammasi şimdi hemen hepsi herkes 现在 今すぐ 지금"),
		"at once", "right away", "straight away", "for now", "for today", "for a bit", "for a while", "for a moment",
		"working", "talking", "writing",
	)
)

// IsQuestion reports whether a command that takes no words, such as "/help", has words that make it a
// message for an agent: "/help me choose a laptop".
func IsQuestion(command, words string) bool {
	return slices.Contains(wordless, strings.ToLower(strings.TrimLeft(command, "/!"))) &&
		!attention.IsCourtesy(words, fillers...)
}

// LeadingName returns the name that a text begins with, without the @, or "".
func LeadingName(text string) string {
	labels := attention.Labels(text)
	if attention.CountLeading(text, labels) == 0 {
		return ""
	}
	return text[labels[0].From+1 : labels[0].NameEnd]
}

// NamesOutsider reports whether a text begins with a name that belongs to no agent of the chat,
// to no person, and to nobody for whom isMember reports true. It may be the name of a remote
// agent, which the broker knows.
func (r *Router) NamesOutsider(tx *store.Tx, chat protocol.PeerID, text string, isMember func(name string) bool) bool {
	name := LeadingName(text)
	if name == "" || isMember(name) || len(r.opts.Commands.People(tx, chat, name)) > 0 {
		return false
	}
	return !slices.ContainsFunc(r.Agents(tx, chat),
		func(a Assignment) bool { return strings.EqualFold(a.Agent.Name(), name) })
}

// maxCommandAge is how long a command is retried while the broker does not answer.
const maxCommandAge = 10 * time.Minute

// EnqueueCommand queues a command, in the transaction that stores its message.
func (r *Router) EnqueueCommand(tx *store.Tx, chat protocol.PeerID, c *Command) {
	if c.Thread != "" {
		c.Kind = "thread"
	}
	body, err := json.Marshal(c)
	tx.Fail(err)
	_, err = r.commands.EnqueueTx(tx, string(chat), c.Key, body)
	tx.Fail(err)
}

// A commandRunner runs the commands of a router's chats and shows the results there.
type commandRunner struct{ router *Router }

// A commandAttempt is one attempt to run a command.
type commandAttempt struct {
	*Command
	commandRunner
	ctx        context.Context
	tx         *store.Tx // outside of any transaction
	chat       protocol.PeerID
	broker     *collab.Client // with the identity of the person
	firstAgent protocol.PeerID
	ambiguous  string // what to show if a name means several people
}

// run makes one attempt to run a command and shows its result.
func (r commandRunner) run(ctx context.Context, item outbox.Item) error {
	c := new(Command)
	if err := json.Unmarshal(item.Body, c); err != nil {
		return outbox.Permanent(fmt.Errorf("reading a stored command: %w", err))
	}
	handle := handlers[c.Verb]
	if handle == nil {
		return outbox.Permanent(fmt.Errorf("unknown command %q", c.Verb))
	}
	a := &commandAttempt{
		Command:       c,
		commandRunner: r,
		ctx:           ctx,
		chat:          protocol.PeerID(item.Destination),
		broker:        r.router.broker.As(c.By),
	}
	var result string
	var err error
	unread := store.Autocommit(ctx, r.router.db, func(tx *store.Tx) {
		a.tx = tx
		if agents := r.router.Agents(tx, a.chat); len(agents) > 0 {
			a.firstAgent = agents[0].Agent
		}
		if tx.Err() == nil {
			result, err = handle(a)
		}
	})
	var refused *contract.Error
	switch {
	case unread != nil: // the result may lack what could not be read
		return outbox.Retry(0, unread)
	case a.ambiguous != "":
		result = a.ambiguous
	case errors.Is(err, contract.ErrNoBroker) && c.Verb != VerbSay:
		result = "Work needs the collaboration broker, and it isn't running here."
	case errors.Is(err, contract.ErrNoBroker): // the chat's own agents have the message
	case errors.As(err, &refused):
		result = "That was refused: " + refused.Message + "."
	case err != nil:
		return outbox.Retry(0, err)
	}
	return store.InTx(ctx, r.router.db, func(tx *store.Tx) { r.post(tx, a.chat, c.Thread, "result:"+c.Key, result) })
}

// post shows a text in a chat, if the chat can still be written to.
func (r commandRunner) post(tx *store.Tx, chat protocol.PeerID, thread, key, text string) {
	if _, refusal := r.router.adapter.FindChat(tx, chat.Topic()); text != "" && refusal == "" {
		r.router.opts.Commands.Post(tx, chat, thread, key, text)
	}
}

// onSettled tells a chat that its command failed permanently.
func (r commandRunner) onSettled(tx *store.Tx, item outbox.Item, outcome outbox.State, cause error) {
	var c Command
	if outcome == outbox.StateSent || json.Unmarshal(item.Body, &c) != nil || c.Verb == VerbSay {
		return
	}
	r.router.log.Warn().Err(cause).Str("topic", item.Destination).Str("command", c.Verb).Msg("command of a chat failed")
	r.post(tx, protocol.PeerID(item.Destination), c.Thread, "result:"+c.Key,
		"That didn't work: the collaboration broker didn't answer in time. Please try again later.")
}
