package collab

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"hubbub/protocol"
	"hubbub/protocol/text"
)

// An Approval is one decision of a person: whether an agent may run one tool with one set of
// arguments. On the wire and in commands it is called a decision. The broker stores it, or the
// agent if there is no broker. Both change it only by the methods below.
type Approval struct {
	ID string `json:"id"`
	ApprovalParams
	AskedByID       string          `json:"askedById"`
	AskedByIdentity protocol.PeerID `json:"askedByIdentity"`
	CreatedAt       string          `json:"createdAt"`
	ApprovalOutcome
}

// ApprovalParams describe the request for a decision.
type ApprovalParams struct {
	Tool      string   `json:"tool"`                // "shell", "mcp:deploy.run"
	Arguments string   `json:"arguments,omitempty"` // without secrets, truncated
	Digest    string   `json:"digest"`              // SHA-256 of the complete arguments, in hex
	EventID   string   `json:"eventId,omitempty"`   // the event for which the tool would run
	Chat      string   `json:"chat,omitempty"`      // the topic that shows the request
	MayDecide []string `json:"mayDecide"`           // identities; people at the command line may always decide
	ExpiresAt string   `json:"expiresAt"`
	Default   Verdict  `json:"default"` // applies if nobody decides in time
}

// An ApprovalOutcome is the current state of an approval.
type ApprovalOutcome struct {
	State     ApprovalState `json:"state"`
	Scope     ApprovalScope `json:"scope,omitempty"` // of an allowed approval
	By        string        `json:"by,omitempty"`    // the deciding identity, or "default"
	DecidedAt string        `json:"decidedAt,omitempty"`
	Reason    string        `json:"reason,omitempty"`
}

// A Verdict is a person's decision.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "allow"
	Deny  Verdict = "deny"
)

// An ApprovalScope is the extent of an approval.
type ApprovalScope string

// The scopes.
const (
	ScopeOnce    ApprovalScope = "once"    // this call
	ScopeSession ApprovalScope = "session" // this tool for this person in this chat, until the agent stops
	ScopeAlways  ApprovalScope = "always"  // this tool for this person in this chat, until it is revoked
)

// An ApprovalState is the state of an approval.
type ApprovalState string

// The states of an approval.
const (
	ApprovalPending   ApprovalState = "pending"
	ApprovalAllowed   ApprovalState = "allowed"
	ApprovalDenied    ApprovalState = "denied"
	ApprovalExpired   ApprovalState = "expired"   // nobody decided, and the default is to deny
	ApprovalCancelled ApprovalState = "cancelled" // the asking agent withdrew it
	ApprovalRevoked   ApprovalState = "revoked"   // a reusable approval was ended
)

// approvalTransitions lists the transitions. States without an entry are final.
var approvalTransitions = map[ApprovalState][]ApprovalState{
	ApprovalPending: {ApprovalAllowed, ApprovalDenied, ApprovalExpired, ApprovalCancelled},
	ApprovalAllowed: {ApprovalRevoked},
}

// Reusable reports whether the approval also allows further calls.
func (a *Approval) Reusable() bool {
	return a.State == ApprovalAllowed && (a.Scope == ScopeSession || a.Scope == ScopeAlways)
}

// Open reports whether the approval may still change.
func (a *Approval) Open() bool { return a.State == ApprovalPending || a.Reusable() }

// Covers reports whether a reusable approval allows the call of another one. The person who
// decided a must also be allowed to decide the other one.
func (a *Approval) Covers(other *Approval) bool {
	return a.Reusable() && a.Tool == other.Tool && a.Chat == other.Chat && a.AskedByIdentity == other.AskedByIdentity &&
		other.MayBeDecidedBy(a.By)
}

// MayBeDecidedBy reports whether an identity may decide. People at the command line may decide
// everything.
func (a *Approval) MayBeDecidedBy(who string) bool {
	return protocol.RoleOf(protocol.PeerID(who)) == protocol.RoleCLI || slices.Contains(a.MayDecide, who)
}

// Decide returns the approval after a verdict. A repeated verdict changes nothing.
func (a Approval) Decide(v Verdict, scope ApprovalScope, by string, now time.Time) (Approval, error) {
	scope = cmp.Or(scope, ScopeOnce)
	to := map[Verdict]ApprovalState{Allow: ApprovalAllowed, Deny: ApprovalDenied}[v]
	switch {
	case to == "":
		return a, Refuse(CodeInvalid, "the verdict %q is neither allow nor deny", text.Clip(string(v), 40))
	case scope != ScopeOnce && scope != ScopeSession && scope != ScopeAlways:
		return a, Refuse(CodeInvalid, "the scope %q is none of once, session and always", text.Clip(string(scope), 40))
	case !a.MayBeDecidedBy(by):
		return a, Refuse(CodeForbidden, "%s may not decide %s; only %s may", by, a.ID,
			cmp.Or(strings.Join(a.MayDecide, ", "), "people at the command line"))
	case a.State == to && a.By == by:
		return a, nil // two clicks are one decision
	}
	a = a.Expire(now)
	if to == ApprovalDenied {
		scope = ""
	}
	return a.transition(to, scope, by, "", now)
}

// Expire returns the approval with its default applied if its time is over.
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

// Cancel returns the approval as withdrawn by the asking agent.
func (a Approval) Cancel(by, reason string, now time.Time) (Approval, error) {
	if a.State == ApprovalCancelled {
		return a, nil
	}
	return a.transition(ApprovalCancelled, "", by, reason, now)
}

// Revoke returns the approval as revoked. It no longer allows further calls.
func (a Approval) Revoke(by, reason string, now time.Time) (Approval, error) {
	switch {
	case a.State == ApprovalRevoked:
		return a, nil
	case a.State == ApprovalAllowed && !a.Reusable():
		return a, Refuse(CodeBadTransition, "decision %s allowed one call only; there is nothing to revoke", a.ID)
	case a.State == ApprovalPending:
		return a, Refuse(CodeBadTransition, "decision %s is still pending; deny it instead", a.ID)
	}
	if reason != "" {
		reason = "; " + reason
	}
	return a.transition(ApprovalRevoked, a.Scope, by, "it was allowed by "+a.By+reason, now)
}

// transition changes the state if the table allows it. Otherwise the error describes the current
// state.
func (a Approval) transition(
	to ApprovalState,
	scope ApprovalScope,
	by, reason string,
	now time.Time,
) (Approval, error) {
	if !slices.Contains(approvalTransitions[a.State], to) {
		return a, Refuse(CodeBadTransition, "decision %s is no longer open: %s", a.ID, a.Describe())
	}
	a.ApprovalOutcome = ApprovalOutcome{
		State:     to,
		Scope:     scope,
		By:        by,
		DecidedAt: protocol.FormatTime(now),
		Reason:    reason,
	}
	return a, nil
}

// Describe returns the outcome in words: "allowed by tg:42 for this session".
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

// ExpiryText returns the expiry time for people.
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

// ApprovalDecideParams decide, cancel or revoke. By is the identity of a person who decided in a
// chat of the asking agent; only that agent may set it. Reason is for decision.cancel and
// decision.revoke.
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
