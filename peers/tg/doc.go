// Package tg is the bridge between Telegram and the bus. It serves one bot with many chats.
//
//	db, err := tg.Open(filepath.Join(data, "tg.db"))
//	err = tg.New(token, db, &tg.Options{AllowUsers: []int64{77}}).Run(ctx)
//
// The files follow the path of a message: poll or webhook, ingest, parse, admit, command, adapter
// (to the agents, through peers/bridge). On the way back: reply, send, throttle, status.
//
// Guarantees:
//
//   - Receiving: an update is on disk (synchronous=FULL) before Telegram may forget it.
//     Updates are identified by (bot, update ID), not by "higher than the last", because
//     the numbers restart at random after a week without updates. Nothing is dropped at a
//     start. An update that no agent receives is kept with the reason.
//   - Quoted text: a message that is forwarded, or that an inline bot wrote, is quoted
//     line by line with its author. It is not a command, mentions nobody and obliges nobody.
//     A reply brings along up to 1000 characters of the message that it answers, even from
//     another chat. A message of an unknown kind is described by its kind. In a direct
//     chat, a message without any content is answered, never dropped.
//   - Admission: nobody is admitted unless a flag allows the user or chat, or it sent a
//     one-time code. A direct chat needs its user, a group its chat. Names and forwards do
//     not count.
//   - Agents: see peers/bridge. People are notified once about a problem, and once a day about an
//     agent that accepts nothing. If the spawner gave up on the chat's agent, the next message
//     requests it again. An event that exceeds the bus's limit for a frame is a dead letter.
//   - Sending: a reply is on disk before it is acknowledged, once per agent and key, and is sent
//     in order per chat. If a send got no answer, or the bridge died meanwhile, its outcome is
//     unknown: it is reported as such and repeated only on request. A reaction is simply set
//     again. A reply that Telegram refuses permanently, or that is older than 24 hours, becomes a
//     dead letter; the agent, the user and the operator are notified. If a reply lost its claim
//     to another agent's, only its agent is notified.
//   - Mentions: the bot is mentioned by its name, by a link to it, and by a name without @
//     that Telegram marks as the bot's, in texts and captions, but not in code or quotes. A
//     command that takes no words is a message for the agents if words follow it.
//   - Formatting that has a meaning reaches agents as Markdown: struck text, spoilers, code,
//     quotes, and links whose text does not show the address.
//   - Buttons: a press counts if the message currently shows the button and the user may
//     press it. Any other press is answered and logged, and no agent receives it. A message
//     is edited once, however many attempts that takes. If it no longer exists, the text is
//     sent as a new message. If Telegram refuses buttons, the text names them. After /stop,
//     open questions lose their buttons and say why.
//   - Drafts: in a direct chat the text that an agent has written so far is shown as a
//     draft with a stop button, at most once a second. The draft's number is that of the
//     message that it answers, so that a press is understood after a restart. The press
//     reaches the agent as a reaction with the signal stop. Where Telegram refuses drafts,
//     the typing indicator is shown.
//   - Tables: a text with a table that fits into one message is sent as a rich message, and
//     its draft as a rich draft, within Telegram's limits: 500 blocks (including items and
//     rows), 16 levels of nesting, 20 columns. If Telegram refuses it, it is sent as text. A
//     server without rich messages is asked once.
//   - Limits: the limits per chat, group and bot hold across restarts, and so does every
//     retry_after. They apply to typing indicators too.
//   - Secrets: the bot token appears in no error, log line, row or message.
//   - Stop: when its context ends, Run accepts nothing new, completes a send in progress,
//     and returns after every goroutine that it started has ended.
//
// Not guaranteed: messages that Telegram dropped because the bridge was offline for more than 24
// hours, and exactly one copy of a send that got no answer. Telegram tells bots neither about
// deleted messages nor about users who type.
//
// The package implements sections 10 and 11 of the Agent Communication Protocol for the Telegram
// peer.
package tg
