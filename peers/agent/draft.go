package agent

import (
	"context"
	"errors"
	"sync"
	"time"

	"hubbub/peers/agent/harness"
	"hubbub/peers/agent/mailbox"
	"hubbub/peers/attention"
	"hubbub/protocol"
	"hubbub/protocol/notify"
	"hubbub/protocol/text"
)

// Bounds of drafts. A draft is sent again when it has grown by half. A long answer therefore
// needs a dozen messages with three times its size in total.
const (
	draftEvery = time.Second
	draftLeast = 40       // bytes of the first draft
	draftKept  = 32 << 10 // bytes of a model's text, including its thoughts
	maxDrafts  = 64       // turns with texts; others have no drafts
)

// drafts are the answers that models are writing, by turn. The prompt templates of some models
// open a thought, so that the text has only its closing tag, and a draft would show the thought.
// Drafts are therefore shown only after an answer of the model contained everything that its
// drafts would have shown, and never again after an answer that did not.
type drafts struct {
	grown notify.Signal

	mu    sync.Mutex
	texts map[string]*draft
	sure  bool
	never bool
	kept  int64 // sure and never, as stored in the mailbox
}

type draft struct {
	text string
	said int // bytes that the last draft had
}

func newDrafts() *drafts { return &drafts{grown: notify.New(), texts: map[string]*draft{}} }

// add adds a piece of text, or restarts the text, and reports whether it grew.
func (d *drafts) add(p harness.Progress) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.texts[p.TurnID]
	switch {
	case p.Kind != harness.ProgressText && p.Kind != harness.ProgressToolCall || p.TurnID == "":
		return false
	case p.Kind == harness.ProgressToolCall || p.Message == "":
		if one != nil {
			d.learnFrom(one, false)
			one.text, one.said = "", 0
		}
		return false
	case one == nil && len(d.texts) >= maxDrafts:
		return false
	case one == nil:
		one = &draft{}
		d.texts[p.TurnID] = one
	}
	one.text += text.Prefix(p.Message, draftKept-len(one.text))
	return true
}

// learnFrom learns from a text whether drafts of this model can be trusted. whole says that it is a
// complete answer. The caller must hold mu.
func (d *drafts) learnFrom(one *draft, whole bool) {
	if attention.Draft(one.text) == "" {
		return
	}
	held := attention.DraftMatches(one.text)
	d.never = d.never || !held
	d.sure = d.sure || held && whole && len(one.text) < draftKept
}

// end removes a turn.
func (d *drafts) end(turnID string, whole bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.texts[turnID]; one != nil {
		d.learnFrom(one, whole)
		delete(d.texts, turnID)
	}
}

// What the mailbox stores about a model across restarts.
const (
	draftsSure = 1 << iota
	draftsNever
)

// recall loads what the mailbox has stored about the model.
func (d *drafts) recall(kept int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sure, d.never, d.kept = d.sure || kept&draftsSure != 0, d.never || kept&draftsNever != 0, kept
}

// learned returns what the mailbox should store about the model, and whether that is new.
func (d *drafts) learned() (keep int64, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sure {
		keep |= draftsSure
	}
	if d.never {
		keep |= draftsNever
	}
	return keep, keep != d.kept
}

// recallDrafts reads from the mailbox whether drafts of this model can be trusted.
func (a *Agent) recallDrafts(ctx context.Context) {
	v := a.mailbox.View(ctx)
	if kept := v.Counter(a.draftsName()); v.Err() == nil {
		a.drafts.recall(kept)
	}
}

func (a *Agent) draftsName() string { return "drafts " + a.opts.HarnessType + " " + a.opts.Model }

// keepDrafts stores what was learned about the model.
func (a *Agent) keepDrafts(ctx context.Context) error {
	keep, fresh := a.drafts.learned()
	if !fresh {
		return nil
	}
	err := a.mailbox.InTx(ctx, func(tx *mailbox.Tx) { tx.SetCounter(a.draftsName(), keep) })
	if err == nil {
		a.drafts.recall(keep)
	}
	return err
}

// turns returns the turns with texts.
func (d *drafts) turns() (ids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := range d.texts {
		ids = append(ids, id)
	}
	return ids
}

// due returns the new draft of a turn, or "" if there is none.
func (d *drafts) due(turnID string, redact func(string) string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.texts[turnID]
	if one == nil || d.never || !d.sure {
		return ""
	}
	shown := text.Prefix(attention.Draft(redact(one.text)), protocol.MaxDraft)
	if len(shown) < max(draftLeast, one.said+one.said/2) {
		return ""
	}
	one.said = len(shown)
	return shown
}

// showDrafts sends the drafts that have grown to their direct chats. An event with an interim
// message needs no draft. It reports whether there may be more.
func (a *Agent) showDrafts(ctx context.Context) (more bool, err error) {
	v := a.mailbox.View(ctx)
	for _, id := range a.drafts.turns() {
		if t := v.Turn(id); v.Err() == nil && (t == nil || t.Ended()) {
			a.drafts.end(id, t != nil && t.State == mailbox.TurnFinished)
		}
	}
	errs := []error{a.keepDrafts(ctx)}
	for _, e := range typingEvents(v) {
		if e.Content.Chat.Kind != "dm" || protocol.PeerID(e.Chat).Family() == "chorus" || v.Interim(e) != nil ||
			v.Err() != nil {
			continue
		}
		if shown := a.drafts.due(e.TurnID, a.opts.Redact.String); shown != "" {
			errs = append(errs, a.sendTyping(ctx, e, true, shown))
		}
	}
	return len(a.drafts.turns()) > 0, errors.Join(append(errs, v.Err())...)
}
