// Package chorus is the gateway of the Chorus channel protocol, both sides of
// it: HTTP agents elsewhere become agents on the bus, and channels elsewhere
// become chats on the bus.
//
//	store, err := chorus.OpenStore(folder)
//	listener, err := net.Listen("tcp", "127.0.0.1:7893")
//	err = chorus.New(store, listener, &chorus.Options{PublicURL: "https://hubbub.example.com"}).Run(ctx)
//
// Guarantees, agent side (a service POSTs to an inbox):
//
//   - 200 means stored: the message survives SIGKILL and a power cut, is given
//     to the agent in its place, and its answer goes to its callback. The work
//     comes after the 200. A message POSTed again, by (channel id, message id),
//     is answered 200 and changes nothing.
//   - A channel is the identity "chorus:<inbox>.<channel id>" and finds its agent
//     by the same steps as a Telegram chat (peers/bridge). Every step is repeated
//     until its addressee has taken it; messages reach the agent in order.
//   - A channel is a room, unless its context says that there are two. A person who
//     names nobody else that is known means the agent; the service, and an agent of
//     this bus, known by its name or by what it said elsewhere just now, have to
//     name it: so two agents that a service brings to each other do not go on.
//   - What an agent says and does for a message goes to that message's callback.
//     All that goes to one channel keeps the order in which the bus delivered it,
//     across its callbacks too, one POST after the other's answer: after a 5xx or a
//     failed connection three times more, after anything else not. A report of
//     activity is tried once, and not at all where the event before was not
//     answered: others wait behind it. Lifecycle events, which extend the protocol,
//     end for a channel whose service answers one with an error. A POST that
//     left and was not answered in 30 s, or was cut off by a crash, is not repeated,
//     since a service cannot tell; its agent hears "unknown".
//   - A rotated or revoked connection string is dead when the command that did it
//     returns. Unknown, wrong, rotated and revoked ones are answered alike.
//   - Over A2A 1.0 (JSON-RPC at /a2a, HTTP+JSON below /a2a/rest, the card at the well-known path, the secret of an inbox as
//     bearer token) a message is a task: stored as one that is POSTed, in the channel
//     that its contextId names, a direct one. The agent's answer is an artifact and ends
//     the task; what it says on the way is the status. A question that a person is to decide
//     makes it input-required, and its next message answers that. A task that is cancelled is withdrawn from the agent
//     as a message that was deleted, and what is said afterwards is refused. Tasks
//     are kept as long as messages, and shown to their inbox alone.
//
// Guarantees, hooks (a program elsewhere POSTs what a chat of any bridge is to hear):
//
//   - 200 means stored: it reaches the chat's bridge as a chat_message, in order, across
//     restarts, or is a dead letter that Store.Hooks tells of. The bridge makes it an event whose
//     author is the hook: a status that obliges nobody, or an assignment of the chat's agent.
//   - A post is signed with the hook's secret, as by Standard Webhooks within five minutes, or as
//     by GitHub. It is known for 30 days by its id, or, where that is not signed, by its body.
//   - What it says is quoted: it names nobody, and no word of it is a command.
//
// Guarantees, service side (the gateway POSTs to an external agent):
//
//   - An external agent is an agent like any other, with a mailbox, attention and
//     tools of its own (Options.OpenAgent); it gets its turns over HTTP. It has its
//     own folder below the data folder, which is removed with it. Agents are begun
//     and ended as they are added and removed, without a restart.
//   - Turns are POSTed in order per channel, each with a callback and an MCP token
//     of its own. POSTs repeat as callbacks do, and without an answer or after a
//     crash too: the receiver knows them by message.id. A turn whose words changed
//     is POSTed again under another message.id, and answers to the old words are
//     refused.
//   - A callback takes events for Options.CallbackTTL and answers 410 afterwards.
//     200 means stored; events reach the chat in the order of receipt. What policy
//     forbids is answered 403 with what to do instead. What the chat's bridge
//     refuses is a dead letter of the agent.
//
// Both sides:
//
//   - Connections go only to public addresses and to those of Options.Allow. The
//     address is checked when it is dialled, after every name and redirect.
//   - Secrets that come in are kept as SHA-256. Those that go out again are
//     sealed with chorus.key. None is in a log, an error or on the bus.
//   - Every body, queue, wait and number of callers is bounded; what does not fit
//     is refused with a status that says so.
//
// Not promised: exactly-once POSTs (HTTP has no such thing; see above), order
// between channels, and anything about two gateways on one data folder.
package chorus
