// Package broker is the collaboration broker. It keeps identities, conversations,
// questions, work, deliveries and claims, and decides whom to wake. It implements the
// OpenScout collaboration contract ("Track 02").
//
// # Guarantees
//
//   - Events: every change is an event in an append-only log, with a seq from 1
//     without gaps while events are kept. The state is the result of the events
//     alone; after a restart it is the same.
//   - Durability: a request is answered "processed" once its events, its answer
//     and its wakes are on disk (synchronous=FULL). Concurrent requests share a
//     commit.
//   - Answers: every processed request gets one collab_result, sent until its
//     requester takes it. A requester loses an answer if it is absent for a minute,
//     does not take it for five minutes, or rejects it four times. A repeated request
//     (same from, requestId, method and params) gets the first answer again for 24
//     hours and changes nothing. The same requestId with another method or params is
//     a conflict. A refused request changed nothing and may be repeated.
//   - Responsibility: one decision wakes one agent at most, never the sender, by
//     the rules below. The decision is stored with everything that it is based on.
//     It does not depend on whether the responsible agent can be woken.
//   - Wakes: a wake is stored before it is sent, and sent until its receiver takes
//     it, across SIGKILL with the same event id and messageId. An agent that is
//     absent from the bus, offline, or manual is not woken: the delivery waits, and
//     its wake is sent once when the agent announces itself or comes back online. The
//     spawner is asked for the agent (an agent_event "wanted" to system:agents, for ten
//     minutes), and starts an agent again that it had stopped when idle. A wake that
//     the agent rejected four times is parked in the same way, so that later wakes do
//     not wait behind it.
//   - Work: every work item that is not done or cancelled has an owner and a
//     next-move owner. Only the transitions of the state machines below happen.
//   - Claims: an event has at most one holder at any time on the broker's clock.
//     Tokens are integers that only grow.
//   - Order: requests of one sender are decided in the order of sending. Events go
//     to collab:events in the order of the log, at least once. Their metadata.seq
//     reveals repetitions and gaps.
//   - Bounds: at most 1,024 requests wait for a decision, and at most 2,000 answers
//     for one requester (then its requests are refused). A page of a list is at most
//     512 KiB, a text 256 KiB, a name 256 bytes.
//
// Not promised: privacy between agents. Every peer that may publish to collab:broker
// may read all records. Membership of a conversation says whom it concerns, not who
// may read it.
//
// The database has the state beside the events, changed in the same commits. Open
// entities are also in memory; a start reads them, and no events. Published events older
// than --event-keep are deleted, and so are entities that have been closed for as long.
// Open ones stay, except deliveries that nobody took. Heartbeats are not events: after a
// start the timeout of every online endpoint begins again.
//
// # Identities
//
// The caller is the message's from, for which the bus vouches. All decisions are based on
// identities. In records, an agent has the name that it announced last, else its own:
// agent:lead is "lead". A person also has a bare name: tg:42 is "42", cli:will is "will",
// and so is cli:will.x7 (the part after the dot distinguishes runs of a command). Beside
// each name in a record is the identity (ownerId "lead", ownerIdentity "agent:lead").
//
// An agent announces its own name, or one that its credential grants (names = ["lead"] in
// the bus's credentials; the bus reports them with each request). While it is granted, the
// agent also acts for agent:lead. Nobody announces a person. An open bus grants every name
// except that of an agent that has announced itself.
//
// Params accept identities, labels with "@" and bare names. A bare name means the known
// agent or person of that name; on an update, the party that the record shows under it;
// otherwise the agent of that name. A name that means several parties is ambiguous, and
// the refusal lists unique names. A label with a workspace, a harness, a model or another part
// must fit a known agent.
//
// An endpoint belongs to the identity that announced it. No other identity may announce
// or refresh it. People (tg:, chorus:, cli:) may move any work, answer any question,
// finish any delivery and release any claim. Agents may do so only with their own.
//
// # Requests
//
// [collab.Manual] describes the methods with their params, results and records, which are the types
// of package protocol/collab; `hubbub help broker` prints it.
//
// A collab_request to collab:broker has {"method", "params", "requestId"}; the
// collab_result goes to the sender's topic with {"requestId", "ok", "result"} or
// {"requestId", "ok":false, "error":{"code","message","details"}}. The
// default requestId is the messageId. Lists have pages: after is the next of the previous
// page, and limit is 200 by default and 1,000 at most. At the end, next is null.
//
// A request that creates an existing record again, by the same caller with the same
// params, is answered with duplicate:true. With other params it is a conflict.
//
// A bridge adds chat {identity, kind, title?, agentId?} to message.post, question.ask and
// work_item.assign: the broker first creates the chat's conversation and binds the chat to
// its agent, unless it has done so before.
//
// # Routing
//
// A target is "endpoint:ID", a label (see label), a role, a bare name or an identity.
// Names and roles are compared without case and punctuation. Nothing is completed or
// guessed. Among several endpoints of one name, online and wakeable ones come first, then
// those in the sender's announced project, then in its workspace, then the latest sign of
// life. Labels that fit several names are ambiguous. So are names that different identities
// announced in different workspaces, unless the sender's own place decides. The reason lists
// labels or identities that are unique, and records then show the identity that announced
// the name. Aliases and then roles are tried last, so that they take nothing meant
// for a known name.
//
// The leading mentions of a person's text route (surface human from an agent's identity
// counts as agent). All other mentions are hints: they are in the result and the event, and
// wake nobody. Agents route only with targets.
//
// Wake rules, in their order: explicit_mention (targets, then leading mentions),
// dependency_owner (only for work that waits for an agent, a person or a record),
// next_move_owner, owner, conversation_master (in a dm without a master, the other side if it
// is an agent), none. A message of kind status or final, or about finished work, wakes only
// named parties. If the first named party cannot be woken, the answer is unknown_target,
// ambiguous or unavailable, and the message is kept: details has messageId, askedLabel,
// candidates and deliveries.
//
// A message does not wake its sender unless it has followUp. A message that only says thanks
// wakes nobody. An agent's message in a conversation other than a dm, without a work item,
// wakes the master only if it names it.
//
// Cycles of parents or waits are refused. Work is accepted or rejected by its requester, by
// the party with the next move during a review, or by people. The owner may do so only if
// nobody else is named. Nobody makes itself the reviewer: an agent that hands in another's
// work gives the next move to the requester. parentId null removes the parent.
//
// Creating and updating work wakes nobody, except with "wake":true or work_item.wake. Asking
// and answering a question wake the party with the next move. A completed flight moves its
// work to review, with acceptance pending and the next move to the requester, who is woken
// with "wake":true. Wakes that wait for an absent agent are cancelled when the work ends or is
// assigned to another party, and so are their flights.
//
// A sweep sends reminders about a subject if nothing has happened to it for --stale-after, and
// once in each such period. Subjects are work that is open, waiting or in review, questions not
// yet closed, messages without their required acknowledgement, and flights that never began or
// whose agent is gone. It reminds the party with the next move first (for waiting work the
// dependency owner), then the owner, the master of the conversation, and the requester (rule
// requester; for a message only with followUp). Nobody is reminded twice unless something
// happened in between. A party whose earlier wake still waits is passed over. A person is always
// the last, and is notified in the chat of the conversation or in their own.
//
// # Decisions
//
// A decision is made by a person for an agent: whether a tool may run with one set of arguments.
// The record has the arguments without secrets, and the hash of all of them. It is pending, then
// allowed, denied, expired or cancelled. An approval of further calls may be revoked. The
// identities in mayDecide and people at the command line may decide, but no agent. The asking
// agent passes on the verdicts from people in its chat (by). The first verdict counts, and its
// repetition changes nothing. At expiresAt the default applies. The asking agent receives
// collab.decision.updated.
//
// # What an agent does
//
// It announces its endpoint when it connects, and again when a heartbeat gets not_found. A new
// endpoint replaces the previous one of its identity, workspace and project. When the agent
// stops, it sends identity.leave. It sends identity.heartbeat every third of the endpoint
// timeout. If the last answer had watched, the broker learns from bus:presence which peers are
// online and takes the endpoints of departed peers offline at once. Then an occasional heartbeat
// suffices, in case the broker was replaced. On its own topic the agent receives, as
// collab_event:
//
//   - collab.delivery.woken, payload [collab.Wake]: deliveryId, rule, reason, senderId and
//     senderKind (human or agent; agents alone must not wake each other forever), and the
//     message, workItem, question, invocation, flight and conversation that it concerns.
//     The agent stores the event by its id (a repetition has the same one), sends
//     delivery.ack, and acts: flight.update running, then completed or failed;
//     work_item.update; question.answer; message.post with inReplyTo.
//   - collab.claim.offered, payload [collab.Claim]: an event that it was refused is free.
//   - collab.question.updated, payload [collab.Question]: its question was declined.
//
// For an event that needs a claim, the agent calls claim.acquire, adds eventId and token to its
// reply, and prolongs the claim by acquiring it again (the token stays). It ends with
// claim.release {answered:true} after its reply, or with claim.decline if it will not reply. An
// answered event is never granted again. Without either call the claim expires, and is offered
// again even if the reply was shown.
//
// # What a bridge does
//
// It shows a reply to an event that needs a claim only if claim.get returns a claim whose token
// is the reply's and whose ownerIdentity is the reply's from. (The owner is a name for people;
// two identities may share one.) Then the bridge may itself call claim.release {eventId, token,
// answered:true}.
//
// A conversation that a chat creates under its own identity belongs to the chat. The chat's topic
// receives, as collab_event, what others do about the questions and work items of the conversation,
// their messages in it, and reminders that wake nobody.
//
// # Events
//
// The types and payloads are in protocol/collab. The source is the identity that caused the event
// ("agent:lead", "tg:42"), or collab:broker for the broker's own decisions. The target is its
// subject ("conversation:c1", "work_item:w1", "question:q1", "agent:lead", "flight:f1",
// "event:e1", ...). Published events have their seq in metadata.seq.
//
// # Usage
//
//	db, err := store.Open(filepath.Join(data, "broker.db"), broker.Schema)
//	b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{}), &broker.Options{StaleAfter: time.Hour})
//	err = b.Run(ctx)
package broker
