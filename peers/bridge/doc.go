// Package bridge contains what every chat bridge shares: it connects the chats of a
// bridge with their agents. The bridges of Telegram and Matrix and the Chorus gateway use it.
//
//	r := bridge.New(db, adapter, &bridge.Options{Name: "123456"})
//	r.Attach(peer)
//	err := r.Run(ctx)
//
// A [Router] requests an agent for each chat, configures it, delivers the chat's events
// to it in order, reports what happened to its replies, and decides which replies may be
// shown. It also runs the commands with which people give out work in chats.
//
// The file state.go has the states of a chat and the table of transitions between them.
// Everything that must be sent waits in a queue of peers/outbox.
//
// Guarantees:
//
//   - Agents: a chat without an agent requests one, and repeats the request across
//     restarts until an agent is assigned or the chat is closed. The agent is then
//     configured and receives the events that waited, in order. Answers are matched by
//     request ID, so no chat gets another chat's agent.
//   - No second agent by accident: an agent assigned in answer to a spawn request
//     replaces the one spawned earlier and receives what that one had not received.
//     An agent assigned without a request is added, unless Options.OneAgent is set.
//   - Order: every assigned agent receives every event of its chat in order, each at its
//     own pace. What one agent says goes only to the others. Every attempt to deliver an
//     event carries the same message. An agent that was absent is configured again
//     before it receives anything else. If it was spawned, the spawner is asked for it
//     again, at most three times a minute.
//   - Notices: people are notified once of each problem, until an agent is assigned; see
//     [Notice]. An event that an agent rejects ten times, or does not accept within 24
//     hours, becomes a dead letter.
//   - Claims: if several agents could answer an event, only the holder of the newest
//     claim may. See [Router.AuthorizeReply].
//   - Stop: Run returns after every goroutine that it started has ended. Everything it
//     accepted is on disk.
//
// Two routers with the same name must not run at once on one database.
package bridge
