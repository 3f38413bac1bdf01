package broker

import (
	"slices"
	"strings"

	"hubbub/protocol"
)

type conversationParams struct {
	ID        *string  `json:"id"`
	Kind      string   `json:"kind"`
	Title     string   `json:"title"`
	MemberIDs []string `json:"memberIds"`
	MasterID  string   `json:"masterId"`
}

// createConversation stores a conversation.
func (t *turn) createConversation(p conversationParams) (any, error) {
	if err := checkOneOf("kind", p.Kind, "dm", "group", "channel", "thread"); err != nil {
		return nil, err
	}
	if len(p.MemberIDs) > maxList {
		return nil, invalid("a conversation has at most %d members", maxList)
	}
	c := Conversation{Kind: p.Kind, Title: p.Title, MasterID: bareName(p.MasterID), CreatedByID: t.caller.Name, CreatedAt: stamp(t.now)}
	for _, member := range p.MemberIDs {
		if err := checkText("a member", member, maxName); err != nil {
			return nil, err
		}
		if name := bareName(member); !slices.Contains(c.MemberIDs, name) {
			c.MemberIDs = append(c.MemberIDs, name)
		}
	}
	if err := checkLength("title", p.Title, maxTitle); err != nil {
		return nil, err
	}
	if err := checkName("masterId", p.MasterID); err != nil {
		return nil, err
	}
	id, err := t.newID(p.ID, "conv_")
	if err == nil && strings.TrimSpace(id) == "" {
		err = invalid("id must not be empty")
	}
	if err != nil {
		return nil, err
	}
	c.ID = id
	if old := t.conversations[id]; old != nil {
		if t.created["conversation:"+id] != t.digest {
			return nil, refuse(CodeConflict, "conversation %s exists with other content", id)
		}
		return map[string]any{"conversation": old, "duplicate": true}, nil
	}
	t.emit(EventConversation, "conversation:"+id, c, stepMetadata{Digest: t.digest})
	return map[string]any{"conversation": c}, nil
}

type conversationGetParams struct {
	idParams
	After string `json:"after"`
	Limit int    `json:"limit"`
}

// getConversation answers with a conversation and a page of its messages, oldest
// first.
func (t *turn) getConversation(p conversationGetParams) (any, error) {
	c := t.conversations[p.ID]
	if c == nil {
		return nil, notFound("conversation", p.ID)
	}
	limit, err := pageLimit(p.Limit)
	if err != nil {
		return nil, err
	}
	seqs := t.posts[p.ID]
	if p.After != "" {
		ref, ok := t.messages[p.After]
		if !ok || ref.conversationID != p.ID {
			return nil, invalid("after %q is no message of this conversation", clip(p.After, 80))
		}
		i, _ := slices.BinarySearch(seqs, ref.seq)
		seqs = seqs[i+1:]
	}
	list := []any{}
	size := 0
	var last, next any
	for _, seq := range seqs {
		e, err := t.event(seq)
		if err != nil {
			return nil, err
		}
		if size += len(e.Payload); len(list) == limit || len(list) > 0 && size > pageBytes {
			next = last
			break
		}
		list = append(list, e.Payload)
		last = messageID(e)
	}
	return map[string]any{"conversation": c, "messages": list, "next": next}, nil
}

func messageID(e Event) protocol.MessageID {
	m, err := decodeParams[struct {
		ID protocol.MessageID `json:"id"`
	}](e.Payload)
	if err != nil {
		return ""
	}
	return m.ID
}
