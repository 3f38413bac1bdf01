package collab

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An Approval is one decision of a person: whether an agent may run one tool with one set
// of arguments. On the wire and in commands it is called a decision. The broker keeps it,
// and the agent where there is no broker; both change it only by the functions below.
type Approval struct {
	ID string `json:"id"`
	ApprovalParams
	AskedByID       string          `json:"askedById"`
	AskedByIdentity protocol.PeerID `json:"askedByIdentity"`
	CreatedAt       string          `json:"createdAt"`
	ApprovalOutcome
}

// ApprovalParams say what is asked.
type ApprovalParams struct {
	Tool      string   `json:"tool"`                // "shell", "mcp:deploy.run"
	Arguments string   `json:"arguments,omitempty"` // without secrets, clipped
	Digest    string   `json:"digest"`              // of the whole arguments: sha256 in hex
	EventID   string   `json:"eventId,omitempty"`   // for which it would run
	Chat      string   `json:"chat,omitempty"`      // topic in which it is shown
	MayDecide []string `json:"mayDecide"`           // identities; people at the command line always may
	ExpiresAt string   `json:"expiresAt"`
	Default   Verdict  `json:"default"` // what holds if nobody decides
}

// An ApprovalOutcome says how an approval stands.
type ApprovalOutcome struct {
	State     ApprovalState `json:"state"`
	Scope     ApprovalScope `json:"scope,omitempty"` // of what is allowed
	By        string        `json:"by,omitempty"`    // who decided, or "default"
	DecidedAt string        `json:"decidedAt,omitempty"`
	Reason    string        `json:"reason,omitempty"`
}

// A Verdict is what somebody decides.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// An ApprovalScope says for how much an approval holds.
type ApprovalScope string

// The scopes.
const (
	ScopeOnce    ApprovalScope = "once"    // this call
	ScopeSession ApprovalScope = "session" // this tool for this person in this chat, until the agent stops
	ScopeAlways  ApprovalScope = "always"  // this tool for this person in this chat, until it is revoked
)

// An ApprovalState is how an approval stands.
type ApprovalState string

// The states of an approval.
const (
	ApprovalPending   ApprovalState = "pending"
	ApprovalAllowed   ApprovalState = "allowed"
	ApprovalDenied    ApprovalState = "denied"
	ApprovalExpired   ApprovalState = "expired"   // nobody decided, and the default is to deny
	ApprovalCancelled ApprovalState = "cancelled" // who asked needs it no longer
	ApprovalRevoked   ApprovalState = "revoked"   // what was allowed for longer holds no more
)

// approvalTransitions is the table of states: all others are final.
var approvalTransitions = map[ApprovalState][]ApprovalState{
	ApprovalPending: {ApprovalAllowed, ApprovalDenied, ApprovalExpired, ApprovalCancelled},
	ApprovalAllowed: {ApprovalRevoked},
}

// Reusable reports whether the approval holds for further calls.
func (a *Approval) Reusable() bool {
	return a.State == ApprovalAllowed && (a.Scope == ScopeSession || a.Scope == ScopeAlways)
}

// Open reports whether something may still become of the approval.
func (a *Approval) Open() bool { return a.State == ApprovalPending || a.Reusable() }

// Covers reports whether a standing approval holds for a call of another: only where who
// gave it may decide, too.
func (a *Approval) Covers(other *Approval) bool {
	return a.Reusable() && a.Tool == other.Tool && a.Chat == other.Chat && a.AskedByIdentity == other.AskedByIdentity && other.MayBeDecidedBy(a.By)
}

// MayBeDecidedBy reports whether somebody may decide. People at the command line may
// decide everything.
func (a *Approval) MayBeDecidedBy(who string) bool {
	return protocol.RoleOf(protocol.PeerID(who)) == protocol.RoleCLI || slices.Contains(a.MayDecide, who)
}

// Decide returns the approval as a verdict leaves it. A repeated verdict changes nothing.
func (a Approval) Decide(v Verdict, scope ApprovalScope, by string, now time.Time) (Approval, error) {
	scope = cmp.Or(scope, ScopeOnce)
	to := map[Verdict]ApprovalState{Allow: ApprovalAllowed, Deny: ApprovalDenied}[v]
	switch {
	case to == "":
		return a, Refuse(CodeInvalid, "the verdict %q is neither allow nor deny", text.Clip(string(v), 40))
	case scope != ScopeOnce && scope != ScopeSession && scope != ScopeAlways:
		return a, Refuse(CodeInvalid, "the scope %q is none of once, session and always", text.Clip(string(scope), 40))
	case !a.MayBeDecidedBy(by):
		return a, Refuse(CodeForbidden, "%s may not decide %s: that is for %s", by, a.ID, cmp.Or(strings.Join(a.MayDecide, ", "), "people at the command line"))
	case a.State == to && a.By == by:
		return a, nil // two clicks are one decision
	}
	a = a.Expire(now)
	if to == ApprovalDenied {
		scope = ""
	}
	return a.transition(to, scope, by, "", now)
}

// Expire returns the approval with its default, if its time has passed undecided.
func (a Approval) Expire(now time.Time) Approval {
	if a.State != ApprovalPending || now.Before(ParseTime(a.ExpiresAt)) {
		return a
	}
	to, scope := ApprovalExpired, ApprovalScope("")
	if a.Default == Allow {
		to, scope = ApprovalAllowed, ScopeOnce
	}
	a, _ = a.transition(to, scope, "default", "nobody decided in time", now) //nolint:errcheck // it is pending
	return a
}

// Cancel returns the approval as withdrawn by who asked.
func (a Approval) Cancel(by, reason string, now time.Time) (Approval, error) {
	if a.State == ApprovalCancelled {
		return a, nil
	}
	return a.transition(ApprovalCancelled, "", by, reason, now)
}

// Revoke returns the approval as revoked: what was allowed for longer holds no more.
func (a Approval) Revoke(by, reason string, now time.Time) (Approval, error) {
	switch {
	case a.State == ApprovalRevoked:
		return a, nil
	case a.State == ApprovalAllowed && !a.Reusable():
		return a, Refuse(CodeBadTransition, "decision %s held for one call only: there is nothing to revoke", a.ID)
	case a.State == ApprovalPending:
		return a, Refuse(CodeBadTransition, "decision %s is not decided yet: deny it instead", a.ID)
	}
	if reason != "" {
		reason = "; " + reason
	}
	return a.transition(ApprovalRevoked, a.Scope, by, "it was allowed by "+a.By+reason, now)
}

// transition changes the state as the table says, or refuses it in a sentence that says how the
// approval stands.
func (a Approval) transition(to ApprovalState, scope ApprovalScope, by, reason string, now time.Time) (Approval, error) {
	if !slices.Contains(approvalTransitions[a.State], to) {
		return a, Refuse(CodeBadTransition, "decision %s is no longer open: %s", a.ID, a.Describe())
	}
	a.ApprovalOutcome = ApprovalOutcome{State: to, Scope: scope, By: by, DecidedAt: protocol.FormatTime(now), Reason: reason}
	return a, nil
}

// Describe says how the approval stands, in words: "allowed by tg:42 for this session".
func (a *Approval) Describe() string {
	if a.State == ApprovalExpired || a.By == "default" {
		return string(a.State) + ": nobody decided before " + a.ExpiryText()
	}
	said := string(a.State)
	if a.By != "" {
		said += " by " + a.By
	}
	switch {
	case a.Scope == ScopeSession:
		said += " for this session"
	case a.Scope == ScopeAlways:
		said += " for this tool always"
	}
	if a.Reason != "" {
		said += " (" + a.Reason + ")"
	}
	return said
}

// ExpiryText says when it expires, as people read a time.
func (a *Approval) ExpiryText() string {
	at := ParseTime(a.ExpiresAt)
	if at.IsZero() {
		return a.ExpiresAt
	}
	return at.UTC().Format("15:04:05 UTC on January 2")
}

// ApprovalAskParams ask for a decision.
type ApprovalAskParams struct {
	ID string `json:"id"`
	ApprovalParams
}

// ApprovalDecideParams decide. By, of whose words the asking agent heard in its chat, is
// taken from that agent only; Reason is of decision.cancel and decision.revoke.
type ApprovalDecideParams struct {
	ID      string        `json:"id"`
	Verdict Verdict       `json:"verdict,omitempty"`
	Scope   ApprovalScope `json:"scope,omitempty"`
	By      string        `json:"by,omitempty"`
	Reason  string        `json:"reason,omitempty"`
}

// ApprovalListParams select decisions.
type ApprovalListParams struct {
	State ApprovalState `json:"state,omitempty"`
	PageParams
}

// An ApprovalResult is a decision.
type ApprovalResult struct {
	Decision Approval `json:"decision"`
}
