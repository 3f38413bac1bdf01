package acp

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"hubbub/peers/agent/harness"
	"hubbub/protocol/text"

	acpsdk "github.com/coder/acp-go-sdk"
)

// Limits on what is kept for one turn.
const (
	maxText  = 256 << 10
	maxCalls = 1000 // tool calls whose first description is kept
)

// A collector collects what the program does in one turn.
type collector struct {
	report   func(harness.Progress)
	tools    map[string]bool // plain names of the chat tools
	approver harness.Approver
	ctx      context.Context //nolint:containedctx // of the turn, which a question to a person must not outlive

	mu        sync.Mutex
	pieces    []*strings.Builder // texts between tool calls; the last one grows
	size      int
	message   string // id of the message that the last piece belongs to, if the program names it
	paused    bool   // something else followed the last piece, so that another message begins
	linked    bool   // the last piece was a link
	callCount int
	denied    bool                           // a permission was refused
	calls     map[acpsdk.ToolCallId]callInfo // the program's first description of each call
	usage     *acpsdk.Usage
	stop      acpsdk.StopReason
}

// writeOutcome fills in the outcome of the turn.
func (c *collector) writeOutcome(o *harness.Outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.pieces) - 1; i >= 0 && o.FinalText == ""; i-- {
		o.FinalText = strings.TrimSpace(c.pieces[i].String())
	}
	o.Truncated = c.wasCut()
	o.Usage = harness.Usage{Model: "acp", Iterations: 1, ToolCalls: c.callCount}
	if c.usage != nil {
		o.Usage.InputTokens, o.Usage.OutputTokens = int64(c.usage.InputTokens), int64(c.usage.OutputTokens)
		if cached := c.usage.CachedReadTokens; cached != nil {
			o.Usage.CachedTokens = int64(*cached)
		}
	}
}

// wasCut reports whether a limit ended the turn.
func (c *collector) wasCut() bool {
	return c.stop == acpsdk.StopReasonMaxTokens || c.stop == acpsdk.StopReasonMaxTurnRequests
}

func (c *collector) markDenied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.denied = true
}

func (c *collector) wasDenied() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.denied
}

// hasText reports whether the program has written anything.
func (c *collector) hasText() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.pieces, func(piece *strings.Builder) bool {
		return strings.TrimSpace(piece.String()) != ""
	})
}

// addText adds a piece of the text of a message. A break separates it from an earlier message,
// unless the piece begins with a space and so continues a sentence. A space separates a link from
// words.
func (c *collector) addText(piece, message string, link bool) {
	c.mu.Lock()
	if len(c.pieces) == 0 {
		c.pieces = []*strings.Builder{new(strings.Builder)}
	}
	before := c.pieces[len(c.pieces)-1].String()
	if (c.paused || message != c.message) && before != "" && !strings.HasSuffix(before, "\n") &&
		strings.TrimLeft(piece, " \n") == piece && piece != "" {
		piece = "\n\n" + piece
	} else if first, _ := utf8.DecodeRuneInString(piece); before != "" && (link && !strings.ContainsAny(before[len(before)-1:], " \n([\"") ||
		c.linked && (unicode.IsLetter(first) || unicode.IsDigit(first))) {
		piece = " " + piece
	}
	if piece != "" {
		c.paused, c.message, c.linked = false, message, link
	}
	if c.size += len(piece); c.size <= maxText {
		c.pieces[len(c.pieces)-1].WriteString(piece)
	}
	c.mu.Unlock()
	c.report(harness.Progress{Kind: harness.ProgressText, Message: piece})
}

func (c *collector) handleUpdate(u *acpsdk.SessionUpdate) {
	switch {
	case u.AgentMessageChunk != nil:
		piece, link := textOf(&u.AgentMessageChunk.Content)
		c.addText(piece, deref(u.AgentMessageChunk.MessageId), link)
		return
	case u.AgentThoughtChunk != nil, u.ToolCallUpdate != nil, u.Plan != nil:
		c.mu.Lock()
		c.paused = true
		c.mu.Unlock()
	}
	switch {
	case u.ToolCall != nil:
		c.mu.Lock()
		if c.callCount++; c.callCount <= maxCalls {
			c.calls[u.ToolCall.ToolCallId] = callInfo{
				kind:  u.ToolCall.Kind,
				title: u.ToolCall.Title,
				input: u.ToolCall.RawInput,
				meta:  u.ToolCall.Meta,
			}
		}
		if n := len(c.pieces); n > 0 && c.pieces[n-1].Len() > 0 && n < 256 {
			c.pieces = append(c.pieces, new(strings.Builder))
		}
		c.mu.Unlock()
		c.reportTool(harness.ProgressToolCall, u.ToolCall.ToolCallId, u.ToolCall.Title, u.ToolCall.RawInput)
		c.reportEnd(u.ToolCall.Status, u.ToolCall.ToolCallId, u.ToolCall.Title, u.ToolCall.RawOutput)
	case u.ToolCallUpdate != nil:
		c.reportEnd(deref(u.ToolCallUpdate.Status), u.ToolCallUpdate.ToolCallId, deref(u.ToolCallUpdate.Title),
			u.ToolCallUpdate.RawOutput)
	case u.Plan != nil:
		done := 0
		for _, e := range u.Plan.Entries {
			if e.Status == acpsdk.PlanEntryStatusCompleted {
				done++
			}
		}
		c.report(
			harness.Progress{
				Kind:     harness.ProgressStatus,
				Message:  "plan",
				Progress: float64(done),
				Total:    float64(len(u.Plan.Entries)),
			},
		)
	}
}

// textOf returns content as text for people. Content that only a program could show is replaced by
// its name. Text and links are parts of sentences; everything else is on separate lines.
func textOf(content *acpsdk.ContentBlock) (said string, link bool) {
	switch {
	case content.Text != nil:
		return content.Text.Text, false
	case content.ResourceLink != nil:
		to := content.ResourceLink
		name := cmp.Or(deref(to.Title), to.Name, to.Uri)
		if isWeb(to.Uri) {
			return linkText(name, to.Uri), true
		}
		said = "(file: " + name + ", `" + localPath(to.Uri) + "`)"
	case content.Resource != nil && content.Resource.Resource.TextResourceContents != nil:
		file := content.Resource.Resource.TextResourceContents
		fence := text.Fence(file.Text)
		said = "`" + localPath(file.Uri) + "`:\n" + fence + "\n" + strings.TrimRight(file.Text, "\n") + "\n" + fence
	case content.Resource != nil && content.Resource.Resource.BlobResourceContents != nil:
		said = "(file: `" + localPath(content.Resource.Resource.BlobResourceContents.Uri) + "`)"
	case content.Image != nil && isWeb(deref(content.Image.Uri)):
		return linkText("image", *content.Image.Uri), true
	case content.Image != nil:
		said = "(an image, " + content.Image.MimeType + ", that cannot be shown here)"
	case content.Audio != nil:
		said = "(a recording, " + content.Audio.MimeType + ", that cannot be played here)"
	default:
		return "", false
	}
	return "\n" + said + "\n", false
}

func isWeb(uri string) bool {
	return strings.HasPrefix(uri, "http://") || strings.HasPrefix(uri, "https://")
}

func localPath(uri string) string { return strings.TrimPrefix(uri, "file://") }

// linkText returns a link in Markdown.
func linkText(name, uri string) string {
	if strings.ContainsAny(uri, "() ") {
		uri = "<" + uri + ">"
	}
	return "[" + strings.NewReplacer("[", "\\[", "]", "\\]", "\n", " ").Replace(name) + "](" + uri + ")"
}

// reportTool reports the input or output of a tool, or null if it is large.
func (c *collector) reportTool(kind harness.ProgressKind, id acpsdk.ToolCallId, title string, v any) {
	content, err := json.Marshal(v)
	if err != nil || len(content) > 64<<10 {
		content = json.RawMessage("null")
	}
	c.report(harness.Progress{Kind: kind, Tool: title, CallID: string(id), Content: content})
}

// reportEnd reports the result of a call if its status says that it has ended.
func (c *collector) reportEnd(status acpsdk.ToolCallStatus, id acpsdk.ToolCallId, title string, output any) {
	if status == acpsdk.ToolCallStatusCompleted || status == acpsdk.ToolCallStatusFailed {
		c.reportTool(harness.ProgressToolResult, id, title, output)
	}
}

// deref returns the value of an optional member, or the zero value.
func deref[T any](member *T) (value T) {
	if member != nil {
		value = *member
	}
	return value
}

// maxLine is the maximum length of a line, the same as in the library.
const maxLine = 10 << 20

// readOutput reads the output of the program. It handles the notifications of a turn in order and
// passes everything else to the library. The library could handle a request before an earlier
// notification, but a permission depends on how the call began.
func (p *agentProcess) readOutput(library io.Writer, output io.Reader) error {
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if json.Unmarshal(lines.Bytes(), &m) == nil && m.ID == nil && m.Method == acpsdk.ClientMethodSessionUpdate {
			p.handleNotification(m.Params)
		} else if _, err := library.Write(append(lines.Bytes(), '\n')); err != nil {
			return err
		}
	}
	return lines.Err()
}

// handleNotification handles a notification about a turn.
func (p *agentProcess) handleNotification(params json.RawMessage) {
	var n acpsdk.SessionNotification
	if decodeParams(params, &n) != nil {
		return
	}
	if turn := p.collectorOf(n.SessionId); turn != nil {
		turn.handleUpdate(&n.Update)
	}
}

// handleRequest handles a request from the program. Since this side announced no files and no
// terminals, it refuses all requests but those for permission and those that ask a person.
func (p *agentProcess) handleRequest(
	ctx context.Context,
	method string,
	params json.RawMessage,
) (any, *acpsdk.RequestError) {
	if method == acpsdk.ClientMethodElicitationCreate {
		return p.elicit(ctx, params)
	}
	if method != acpsdk.ClientMethodSessionRequestPermission {
		return nil, acpsdk.NewMethodNotFound(method)
	}
	var r acpsdk.RequestPermissionRequest
	if refusal := decodeParams(params, &r); refusal != nil {
		return nil, refusal
	}
	return acpsdk.RequestPermissionResponse{Outcome: p.decidePermission(ctx, &r)}, nil
}

// elicit asks a person a question from the program; see harness.Elicit. A question outside a turn
// has nobody to answer it.
func (p *agentProcess) elicit(ctx context.Context, params json.RawMessage) (any, *acpsdk.RequestError) {
	var r struct {
		SessionID       acpsdk.SessionId `json:"sessionId"`
		RequestID       json.RawMessage  `json:"requestId"` // of what needs the answer, outside of a turn
		Mode            string           `json:"mode"`
		Message         string           `json:"message"`
		RequestedSchema json.RawMessage  `json:"requestedSchema"`
	}
	if err := json.Unmarshal(params, &r); err != nil {
		return nil, acpsdk.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	if r.SessionID == "" && r.RequestID == nil { // the libraries of some programs send neither
		r.SessionID = p.onlyTurn()
	}
	turn := p.collectorOf(r.SessionID)
	action, content := harness.ElicitCancel, map[string]any(nil)
	if turn != nil && r.Mode == "form" && p.h.opts.Permission != PermitNothing {
		ctx, cancel := turn.untilEnd(ctx)
		defer cancel()
		name := cmp.Or(p.name, "the program")
		action, content = harness.Elicit(ctx, turn.approver, name, r.Message, r.RequestedSchema)
	}
	answer := map[string]any{"action": action}
	if action == harness.ElicitAccept {
		answer["content"] = content
	}
	return answer, nil
}

// decodeParams decodes and validates the params of a request.
func decodeParams(params json.RawMessage, into interface{ Validate() error }) *acpsdk.RequestError {
	err := json.Unmarshal(params, into)
	if err == nil {
		err = into.Validate()
	}
	if err != nil {
		return acpsdk.NewInvalidParams(map[string]any{"error": err.Error()})
	}
	return nil
}
