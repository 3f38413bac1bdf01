// Package mx is the bridge between Matrix and the bus. It serves one bot with many rooms.
//
//	db, err := mx.Open(filepath.Join(data, mx.Database))
//	b, err := mx.New("https://matrix.example.org", db, &mx.Options{Token: token})
//	err = b.Run(ctx)
//
// The files follow the path of a message: sync, ingest, parse, state, command, adapter (to the
// agents, through peers/bridge). On the way back: reply, send, react, typing, status.
//
// Guarantees:
//
//   - Receiving: the events of a sync are on disk (synchronous=FULL) with the token of the next
//     sync, before that begins. An event is identified by its ID. If the homeserver cuts the
//     timeline of a room, up to 1000 events before it are read. Messages that are older than the
//     bot's membership, or than the first start, are not for the bot.
//   - Sending: a reply is on disk before it is acknowledged, once per agent and key, and is sent in
//     order per room. Its transaction ID follows from the room, the agent and the key, and is
//     also in the content of the event. Before a request is repeated, the newest events of the
//     room are searched for it, since a homeserver may forget transaction IDs.
//   - Admission: nobody is admitted unless a flag allows the user or room, or it sent a one-time
//     code. The bot accepts invitations of admitted users, and of anybody while a code is open. A
//     room is admitted as long as the user who invited the bot is.
//   - Edits count only from the author of the message, and only for messages that reached an
//     agent. A notice (m.notice) obliges nobody. Quotes and code mention nobody.
//   - Upgrades: the successor of a room belongs to the same chat. The bot joins it at once if it is
//     public, otherwise when somebody invites the bot.
//   - Encryption: without Options.Encryption, the bot says once in a room with encryption that it
//     cannot read the room. With it, the keys of a sync are on disk before its events, which are
//     stored as they were before they were encrypted. An event whose key is missing is kept, and
//     read when the key arrives. The state of the bot's own key is on disk before a request
//     leaves.
//   - Limits: the bridge waits as long as M_LIMIT_EXCEEDED says. A reply that cannot be sent within
//     24 hours becomes a dead letter; the agent, the people and the operator are notified.
//   - Secrets: the token appears in no error, log line or message. The token of a login is in the
//     database, which only its owner can read.
//   - Stop: when its context ends, Run accepts nothing new, completes a request in progress, and
//     returns after every goroutine that it started has ended.
//
// Not guaranteed: exactly one copy of a message whose request got no answer, if the homeserver
// shows the first one neither in its answer nor among the newest 100 events of the room.
package mx
