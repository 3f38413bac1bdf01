// Package tg is the bridge between Telegram and the bus: one bot, many chats.
//
//	db, err := tg.Open(filepath.Join(data, "tg.db"))
//	err = tg.New(token, db, &tg.Options{AllowUsers: []int64{77}}).Run(ctx)
//
// The files show the path of a message: poll or webhook, intake (stored), read
// (what it means), admit, command, forward (to the agents, by peers/bridge); and
// back: reply (stored), send, pace, status.
//
// Guarantees:
//
//   - In: an update is on disk, synchronous=FULL, before Telegram may forget it.
//     Updates are told apart as a set by (bot, update id), never by "higher than
//     the last", because the numbers restart at random after a quiet week. Nothing
//     is dropped at a start. What is not passed on is kept with its reason.
//   - Words of others: what is forwarded, or an inline bot wrote, is quoted line by line and says whose it is, so
//     that it commands, mentions and obliges nobody. What a message answers comes along,
//     of this chat or another, up to 1000 characters. A message of a kind that nobody
//     knows says its name; one without a word is told in a direct chat, never dropped.
//   - Who: nobody, unless a user or a chat is allowed or gave a one-time code. A
//     direct chat needs its user, a group its chat. Names and forwards do not count.
//   - Agents: a chat without an agent asks for one and goes on asking, across
//     restarts of anybody, until one is configured; then it gets what was said
//     meanwhile, in order. Answers are matched by request, so chats are never
//     crossed. Trouble is told to the user once, and an agent that is there and takes
//     nothing once a day. A failed spawn_result without a request says that the
//     chat's agent was given up: the user is told, and the next message asks for the
//     agent anew. Every assigned agent gets every event, each at its own pace; one
//     that no frame of the bus can hold is a dead letter. An agent that was found
//     absent is configured before it gets anything more.
//   - Out: a reply is on disk before it is acknowledged, once per agent and key, and
//     sent in order per chat. A send whose outcome is unknown (no answer came, or
//     the bridge died meanwhile) is marked so and not repeated, unless asked; a
//     reaction without an answer is set again, since twice is once. What Telegram
//     refuses for good, and what is older than 24 hours, is a dead letter that the
//     agent, the user and the operator hear of. A reply that lost its claim to
//     another agent's is none: only its agent hears of it.
//   - Buttons: a press counts if the message shows that button now, and it is for who
//     pressed it; any other is answered with a sentence, logged, and heard by no agent. A
//     message is edited once however often the edit is tried; one that is gone is sent anew.
//   - Drafts: in a direct chat what an agent has written so far is shown with the sign of
//     typing, as a draft with a button to stop it, at most once a second. The draft has the
//     number of the message that it answers, so that a press is understood after a restart;
//     it passes on as a reaction with the signal stop. Where drafts are refused the sign is shown.
//   - Tables: a text with a table that fits into one message is a rich message, and its draft a rich
//     draft, if it has at most 500 blocks (items and rows included), 16 levels of blocks and formats, and
//     20 columns. One that is refused so is said as text, and a server that knows none is asked once.
//   - Pace: the limits per chat, group and bot hold across restarts, and so does
//     every retry_after, for signs of typing too.
//   - Secrets: the bot token is in no error, log line, row or message.
//   - Stop: when its context ends, Run takes nothing new, lets a send that is under
//     way end, and returns after every goroutine that it started has ended.
//
// Not promised: messages that Telegram forgot because the bridge was away for
// more than 24 hours, and exactly one copy of a send that ended without an answer.
// Telegram tells bots of no deletions and of nobody typing.
//
// It implements sections 10 and 11 of the Agent Communication Protocol for the
// Telegram peer.
package tg
