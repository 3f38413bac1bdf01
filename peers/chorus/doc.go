// Package chorus is the gateway of the Chorus channel protocol. It implements both sides: remote
// HTTP agents become agents on the bus, and remote channels become chats on the bus.
//
//	store, err := chorus.OpenStore(folder)
//	listener, err := net.Listen("tcp", "127.0.0.1:7893")
//	err = chorus.New(store, listener, &chorus.Options{PublicURL: "https://hubbub.example.com"}).Run(ctx)
//
// Guarantees, agent side (a service POSTs to an inbox):
//
//   - 200 means stored. The message survives SIGKILL and power loss, reaches the
//     agent in order, and its answer goes to its callback. A message that is
//     POSTed again, by (channel ID, message ID), is answered 200 and changes
//     nothing.
//   - A channel has the identity "chorus:<inbox>.<channel id>" and finds its
//     agent in the same way as a Telegram chat (peers/bridge). Every step is
//     repeated until it has succeeded. Messages reach the agent in order.
//   - A channel is a group, unless its context says that two people use it. A person who names
//     nobody known addresses the agent. The service and agents must name the agent. Senders are
//     agents if the service declares it by the kind (or senderKind) of a message, or if they
//     recently said the same elsewhere; a name alone makes nobody an agent. A sender that is not
//     declared a person counts as an agent if it keeps answering an agent at once, with no person
//     in between. So exchanges with remote agents are bounded like those with our own.
//   - If a service POSTs the same message to several inboxes, it is one event in
//     one room: a message that names nobody known is for nobody, a claim decides
//     which agent answers a role, and no other reply is shown.
//   - Attachments are lines of the text, each with the address of a file.
//   - What an agent says and does about a message goes to the callback of that
//     message. All events of a channel are POSTed in the order in which the bus
//     delivered them, one after another, across all its callbacks. After a 5xx
//     or a failed connection, a POST is repeated up to three times; after any
//     other failure, it is not. A report of activity is tried once, and skipped
//     if the previous event was not answered, since other events wait behind it.
//     Lifecycle events extend the protocol; they stop for a channel whose service
//     answers one with an error. A POST that was sent and not answered within
//     30 s, or was interrupted by a crash, is not repeated, since a service
//     cannot recognize it. Its agent receives the status "unknown".
//   - A connection string is invalid when the command that rotated or revoked it
//     returns. Unknown, wrong, rotated and revoked ones get the same answer.
//   - Over A2A 1.0 (JSON-RPC at /a2a, HTTP+JSON below /a2a/rest, the card at the
//     well-known path, the secret of an inbox as bearer token), a message is a
//     task. It is stored like a POSTed message, in the direct chat that its
//     contextId names. The agent's answer is an artifact and ends the task;
//     interim messages are its status. A message that the agent closes without
//     an answer ends its task, too, as the result of a command does. A question
//     for a person makes the task input-required, and its next message is the
//     answer. Canceling a task withdraws it from the agent like a deleted
//     message; later messages for it are refused. Tasks are kept as long as
//     messages, and visible only to their inbox.
//   - To make room for a new channel, a full inbox forgets the one that has been
//     idle longest, with its messages and tasks. A message of a forgotten channel
//     that is POSTed again is new.
//
// Guarantees, webhooks (another program POSTs to a chat of any bridge):
//
//   - 200 means stored. The post reaches the chat's bridge as a chat_message, in
//     order and across restarts, or becomes a dead letter that Store.Hooks
//     reports. The bridge makes it an event by the hook: a status that obliges
//     nobody, or an assignment for the chat's agent.
//   - A post is signed with the hook's secret, as in Standard Webhooks (within five minutes) or
//     at GitHub. It is recognized for 30 days by its ID, or by its body if the ID is not signed.
//   - A post is quoted: it mentions nobody and contains no commands.
//
// Guarantees, service side (the gateway POSTs to an external agent):
//
//   - An external agent is an agent like any other, with its own mailbox,
//     attention and tools (Options.OpenAgent); its turns go over HTTP. It has
//     its own folder below the data folder, which is removed with it. Agents
//     start and stop as they are added and removed, without a restart.
//   - Turns are POSTed in order per channel, each with its own callback and MCP token. POSTs are
//     repeated like callbacks, but even after a missing answer or a crash: the receiver
//     recognizes them by message.id. If the text of a turn changes, the turn is POSTed again with
//     another message.id, and answers to the old text are refused.
//   - A callback accepts events for Options.CallbackTTL, and answers 410
//     afterwards. 200 means stored; events reach the chat in the order of
//     receipt. A body of NDJSON has one event in each line, and the answer the
//     outcome of each. Events that policy forbids are answered 403 with what to do
//     instead. Events that the chat's bridge refuses become dead letters of the
//     agent.
//
// Both sides:
//
//   - Connections go only to public addresses and to those of Options.Allow. The
//     address is checked when it is dialed, after every lookup and redirect.
//   - Incoming secrets are stored as SHA-256. Outgoing secrets are sealed with
//     chorus.key. No secret appears in a log, in an error or on the bus.
//   - Bodies, queues, waits and numbers of callers are bounded. What exceeds a
//     limit is refused with a status that says so.
//
// Not guaranteed: exactly-once POSTs (HTTP cannot provide them), order between channels, and two
// gateways on one data folder.
package chorus
