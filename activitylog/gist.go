package activitylog

import (
	"encoding/json"
	"strings"

	"hubbub/protocol"
)

// Gist summarizes the content of a message without a text in a few words: the method
// asked for, the kind of event, a status. It returns nothing for content of an unknown
// form. The words are as they were sent: the caller clips and escapes them.
func Gist(content json.RawMessage) string {
	var x struct {
		Signal, Event, RequestID, Method, Type, Status, Topic, TalkTo, Agent, Reason, Error string
		Typing                                                                              bool
	}
	_ = json.Unmarshal(content, &x) // fields of another kind stay empty
	var result protocol.CollabResult
	if x.RequestID != "" && x.Method == "" && json.Unmarshal(content, &result) == nil && (result.OK || result.Error != nil) {
		if result.OK {
			return "ok"
		}
		return result.Error.Code + ": " + result.Error.Message
	}
	switch {
	case x.Signal != "":
		return "signal " + x.Signal
	case x.Typing:
		return "is typing"
	case x.Event != "":
		return strings.TrimSuffix(x.Event+": "+x.Reason, ": ")
	}
	var words []string
	for _, w := range []string{x.Method, x.Type, x.Status, x.Topic, x.TalkTo, x.Agent, x.Reason, x.Error} {
		if w != "" {
			words = append(words, w)
		}
	}
	return strings.Join(words, " · ")
}
