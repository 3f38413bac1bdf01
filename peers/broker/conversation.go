package broker

import (
	"slices"

	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

// createConversation stores a conversation.
func createConversation(t *tx, p collab.ConversationParams) collab.ConversationResult {
	checkOneOf("kind", p.Kind, "dm", "group", "channel", "thread")
	checkEach("a member", p.MemberIDs, maxList, "a conversation has at most %d members")
	checkLength("title", p.Title, maxTitle)
	checkName("masterId", p.MasterID)
	c := collab.Conversation{
		ID: t.filledID(p.ID, "conv_"), Kind: p.Kind, Title: p.Title, MasterID: bareName(p.MasterID),
		CreatedByID: t.caller.Name, CreatedAt: stamp(t.now),
	}
	for _, member := range p.MemberIDs {
		if name := bareName(member); !slices.Contains(c.MemberIDs, name) {
			c.MemberIDs = append(c.MemberIDs, name)
		}
	}
	target := "conversation:" + c.ID
	if old := t.conversations[c.ID]; old != nil {
		t.repeats(target, "conversation", c.ID)
		return collab.ConversationResult{Conversation: *old, Duplicate: true}
	}
	emit(t, collab.EventConversation, target, c, collab.StepMetadata{Digest: t.digest})
	return collab.ConversationResult{Conversation: c}
}

// getConversation answers with a conversation and a page of its messages, oldest
// first.
func getConversation(t *tx, p collab.ConversationGetParams) (page collab.ConversationPage) {
	c := known(t.conversations, "conversation", p.ID)
	seqs := t.posts[p.ID]
	if p.After != "" {
		ref, ok := t.messages[p.After]
		if !ok || ref.conversationID != p.ID {
			invalid("after %q is no message of this conversation", text.Clip(p.After, 80))
		}
		i, _ := slices.BinarySearch(seqs, ref.seq)
		seqs = seqs[i+1:]
	}
	page.Conversation, page.Messages = *c, []collab.Listed[collab.Message]{}
	n := take(p.Limit, len(seqs), func(i int) int {
		e := t.event(seqs[i])
		page.Messages = append(page.Messages, collab.Listed[collab.Message]{RawMessage: e.Payload})
		return len(e.Payload)
	})
	if page.Messages = page.Messages[:n]; 0 < n && n < len(seqs) {
		last, err := page.Messages[n-1].Read()
		check(err)
		page.Next = &last.ID
	}
	return page
}
