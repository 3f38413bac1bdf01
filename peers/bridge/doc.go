// Package bridge brings the chats of a bridge to their agents: what the Telegram
// bridge and the Chorus gateway share, from "somebody said something" over spawn,
// route and configure to forwarding in order, and the judging of claims.
//
//	s := bridge.New(db, host, &bridge.Options{Name: "123456"})
//	s.Handle(peer)
//	err := s.Run(ctx)
//
// A chat is known by its identity on the bus. Its state, and what may follow what,
// is one table: see state.go. What has to be sent waits in two queues of
// peers/outbox: "chats" has a step of each chat that is on its way to an agent,
// "agents" has what each agent of a chat is to get.
//
// Guarantees:
//
//   - Agents: a chat without an agent asks for one and goes on asking, across
//     restarts of anybody, until one is assigned, or until the chat is closed; then
//     the agent is configured and gets what was said meanwhile, in order. Answers are
//     matched by request, so chats are never crossed.
//   - No second agent by accident: an agent that another request's answer assigns
//     takes the place of the one that was spawned before, with what that one did not
//     get. Agents that somebody assigns without a request are added, unless
//     Options.OneAgent is set.
//   - Order: every assigned agent gets every event of its chat in order, each at its
//     own pace; what one of them said goes to the others alone. An attempt has the same message each time. An agent that was found
//     absent is configured before it gets anything more; if it was spawned, the
//     spawner is asked for it again, at most three times a minute.
//   - Trouble is told once until an agent is assigned: see [Notice]. What an agent
//     rejects ten times, and what it has not taken after 24 hours, is a dead letter.
//   - Claims: of several agents that could answer an event, only the one with the
//     newest token may. See [Surface.AuthorizeReply].
//   - Stop: Run returns after every goroutine that it started has ended. What was
//     handed over is on disk.
//
// Not promised: anything about two surfaces of one name that run at once.
package bridge
