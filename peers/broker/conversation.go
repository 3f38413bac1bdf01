package broker

import (
	"cmp"
	"slices"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// createConversation stores a conversation.
func createConversation(t *tx, p collab.ConversationParams) (out collab.ConversationResult, err error) {
	err = cmp.Or(
		checkOneOf("kind", p.Kind, "dm", "group", "channel", "thread"),
		checkEach("a member", p.MemberIDs, maxList, "a conversation has at most %d members"),
		checkLength("title", p.Title, maxTitle),
		checkName("masterId", p.MasterID),
	)
	if err != nil {
		return out, err
	}
	c := collab.Conversation{Kind: p.Kind, Title: p.Title, MasterID: bareName(p.MasterID), CreatedByID: t.caller.Name, CreatedAt: stamp(t.now)}
	for _, member := range p.MemberIDs {
		if name := bareName(member); !slices.Contains(c.MemberIDs, name) {
			c.MemberIDs = append(c.MemberIDs, name)
		}
	}
	if c.ID, err = t.filledID(p.ID, "conv_"); err != nil {
		return out, err
	}
	target := "conversation:" + c.ID
	if old := t.conversations[c.ID]; old != nil {
		return collab.ConversationResult{Conversation: *old, Duplicate: true}, t.madeBefore(target, "conversation", c.ID)
	}
	emit(t, collab.EventConversation, target, c, collab.StepMetadata{Digest: t.digest})
	return collab.ConversationResult{Conversation: c}, nil
}

// getConversation answers with a conversation and a page of its messages, oldest
// first.
func getConversation(t *tx, p collab.ConversationGetParams) (page collab.ConversationPage, err error) {
	c := t.conversations[p.ID]
	if c == nil {
		return page, notFound("conversation", p.ID)
	}
	seqs := t.posts[p.ID]
	if p.After != "" {
		ref, ok := t.messages[p.After]
		if !ok || ref.conversationID != p.ID {
			return page, invalid("after %q is no message of this conversation", text.Clip(p.After, 80))
		}
		i, _ := slices.BinarySearch(seqs, ref.seq)
		seqs = seqs[i+1:]
	}
	page.Conversation, page.Messages = *c, []collab.Listed[collab.Message]{}
	n, err := take(p.Limit, len(seqs), func(i int) (int, error) {
		e, err := t.event(seqs[i])
		page.Messages = append(page.Messages, collab.Listed[collab.Message]{RawMessage: e.Payload})
		return len(e.Payload), err
	})
	if page.Messages = page.Messages[:n]; err != nil || n == 0 || n == len(seqs) {
		return page, err
	}
	last, err := page.Messages[n-1].Read()
	page.Next = &last.ID
	return page, err
}
