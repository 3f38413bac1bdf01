// Package broker is the collaboration broker: it keeps identities,
// conversations, questions, work, deliveries and claims, and decides who is
// woken. It implements the OpenScout collaboration contract ("Track 02").
//
// # Guarantees
//
//   - Facts: everything that happened is an event in an append-only log, with a
//     seq from 1 without gaps, as long as events are kept. The state is what the events
//     amount to, and nothing else; after a restart it is the same.
//   - Durability: a request is answered "processed" once its events, its answer
//     and its wakes are on disk (synchronous=FULL). Requests that come together
//     share one commit.
//   - Answers: every request that was processed gets one collab_result, sent until
//     its requester took it. A requester that is away for a minute, does not take
//     its answers for five, or rejects one four times loses them. A repeated request
//     (same from, requestId, method and params) gets the first answer again for 24
//     hours and changes nothing; the same requestId with another method or params is
//     a conflict. A request that was refused changed nothing and may be repeated.
//   - Responsibility: one decision wakes one agent at most, never the sender, by
//     the rules below; the decision is stored with all that was looked at.
//     Who is responsible does not depend on whether they can be woken.
//   - Wakes: a wake is stored before it is sent, and sent until its addressee took
//     it, across SIGKILL with the same event id and messageId. An agent that is
//     absent from the bus, offline, or manual is not woken; the delivery waits, and
//     its wake is sent once when the agent is next announced or heard of. The spawner is
//     told (an agent_event "wanted" to system:agents, for ten minutes), and starts one again
//     that it had stopped because nobody talked to it. A wake that
//     the agent rejected four times is parked in the same way, so that the agent's other
//     wakes do not wait behind it.
//   - Work: every work item that is not done or cancelled has an owner and a
//     next-move owner. Only the changes of state of the machines below happen.
//   - Claims: an event has at most one holder at any time on the broker's clock;
//     tokens are integers that only grow.
//   - Order: requests of one sender are decided in the order in which they were
//     sent. Events go to collab:events in the order of the log, at least once; their
//     metadata.seq tells repetitions and gaps.
//   - Bounds: at most 1,024 requests wait to be decided, at most 2,000 answers for
//     one requester (then its requests are refused); a page of a list is at most
//     512 KiB, texts are at most 256 KiB, names 256 bytes.
//
// Not promised: privacy between agents. Whoever may publish to collab:broker may
// read all records; membership of a conversation says who is concerned, not who
// may read.
//
// Beside the events stands what they amount to, changed in the same commits. In memory is
// what is open, and a start reads that and no events. Events that are older than
// --event-keep leave, once they are published, with what has been done for as long; what is
// open stays, but for deliveries that nobody took. Heartbeats are no events: after a start
// an endpoint that was online has the endpoint timeout to be heard of.
//
// # Who is who
//
// The caller is the message's from, for which the bus vouches; everything is decided by
// identities. An agent stands in records under the name that it announced last, else
// under its own: agent:lead is "lead". A person is known by a bare name too: tg:42 is "42",
// cli:will is "will", and so is cli:will.x7 (what follows the dot tells runs of a command
// apart). Records show bare names; beside each stands the identity (ownerId "lead",
// ownerIdentity "agent:lead"), which decides.
//
// An agent announces its own name, or one that its credential grants (names = ["lead"] in
// the bus's credentials; the bus says so with each request). Then it acts for agent:lead as
// well as for itself, as long as it is granted. Nobody announces a person. An open bus
// grants every name but that of an agent that has announced itself.
//
// Params may have identities, labels with "@" or bare names. A bare name means the agent or
// the person who is known by it, on an update whom the record shows by it, and otherwise the
// agent of that name. What means several is ambiguous, and the refusal says what does not.
//
// An endpoint belongs to the identity that announced it; nobody else may announce
// or refresh it. Persons (tg:, chorus:, cli:) may move any work, answer any
// question, settle any delivery and release any claim; agents only their own.
//
// Records that were made before identities stood in them have those that can be told: of
// their author the one that sent them; of a name the person's who was known by it, else the
// agent's; and if both were known none, so that only people act for it. An endpoint that
// was announced under another's name then must be announced again.
//
// # Requests
//
// Params, results and records are the types of package protocol/collab.
//
// A collab_request to collab:broker has {"method", "params", "requestId"}; the
// collab_result goes to the sender's topic with {"requestId", "ok", "result"} or
// {"requestId", "ok":false, "error":{"code","message","details"}}. Without a
// requestId the messageId stands for it. Methods marked * tell the present state and
// run again when repeated. "page" stands for {after?, limit?}: after is the next of
// the former page, limit 200 unless given (1,000 at most); next is null at the end.
//
//	identity.announce*  {logicalAgentId, endpointId, harnessType?, workspaceId?, projectPath?, roles?,
//	                    wakePolicy? "auto"|"manual", model?, node?, profile?} -> {identity, watched?}
//	identity.heartbeat* {endpointId} -> {identity, watched?}; not_found: announce again
//	identity.leave*     {endpointId} -> {identity}: it stops, and is offline from now on
//	identity.list*      page -> {identities, next}, one per endpoint
//	identity.resolve*   {label} -> {identity, reason}
//	conversation.create {id?, kind dm|group|channel|thread, title, memberIds, masterId} -> {conversation, duplicate?}
//	conversation.get*   {id, page} -> {conversation, messages, next}
//	message.post        {id?, conversationId, text, surface human|agent, kind? chat|status|final, targets?,
//	                    workItemId?, inReplyTo?, followUp?} -> {message, mentions, deliveries, wake | null, duplicate?}
//	question.ask        {id?, title, askedOfId, conversationId?, nextMoveOwnerId?, parentId?} -> {question, wake, decision, delivery?}
//	question.answer     {id, answer, by?}; .close, .decline, .reopen {id} -> {question, ...}
//	question.spawn_work {id, title?, ownerId?, nextMoveOwnerId?, wake?, ...} -> {work_item, question, duplicate?}
//	question.get*       {id} -> {question}; question.list* {state?, nextMoveOwnerId?, page} -> {questions, next}
//	work_item.create    {id?, title, ownerId, nextMoveOwnerId, state?, summary?, waitingOn?, requestedById?, parentId?,
//	                    conversationId?, priority?, acceptanceState?, wake?} -> {work_item, duplicate?, wake?, decision?, delivery?}
//	work_item.update    {id, any of these} -> {work_item, wake?, decision?, delivery?}
//	work_item.get*      {id} -> {work_item}
//	work_item.list*     {state?, ownerId?, nextMoveOwnerId?, page} -> {work_items, next}
//	work_item.arrived   {name} -> {arrived: [{work_item, wake | null, decision, delivery?}], others?}: what waits for a thing of the world
//	                    goes on; others is how many more than there is room for
//	work_item.wake      {id} -> {work_item, wake | null, decision, delivery?}
//	invocation.create   {id?, targetAgentId, text, conversationId?, workItemId?} -> {invocation, flight, delivery, wake}
//	flight.update       {id, state, output?, error?, wake?} -> {flight, ...}; flight.get* {id} -> {flight, invocation}
//	delivery.list*      {targetAgentId, status?, page} -> {deliveries, next}
//	delivery.claim      {targetAgentId, leaseMs?} -> {delivery | null, message?, invocation?}, the oldest pending one
//	delivery.ack, .nack {id} -> {delivery}
//	binding.set         {surface, externalId, agentId} -> {binding}; binding.get* {surface, externalId} -> {binding}
//	claim.acquire       {eventId, ttlMs?} -> {granted, owner, expiresAt, token?, answered?}
//	claim.release       {eventId, token, answered?} -> {claim}
//	claim.decline       {eventId} -> {claim}
//	claim.get*          {eventId} -> {claim}; not_found: nobody ever claimed it
//	decision.ask*       {id, tool, arguments?, digest, eventId?, chat?, mayDecide, expiresAt, default? deny|allow} -> {decision}
//	decision.decide     {id, verdict allow|deny, scope? once|session|always, by?} -> {decision}
//	decision.cancel, .revoke {id, reason?} -> {decision}; decision.get* {id} -> {decision}
//	decision.list*      {state?, page} -> {decisions, next}
//	obligation.open*    {eventId, author, recipient, blocks halted|degraded|none, defaultAction?, dischargeDelegate?, title?,
//	                    rung?, members?, createdAt?} -> {obligation}: told by its author or its recipient
//	obligation.react*   {targetEventId, signal, recipient?, reactionId?, kind? signal|removed|edited|renewed|deleted, actor?} -> {obligation}
//	obligation.discharge*, .get* {eventId, recipient} -> {obligation}
//	obligation.list*    {owedById?, owedToId?, page} -> {obligations, next}: who waits for whom, by all open records
//	events.list*        {after: seq, limit?} -> {events: [{seq, id, type, source, target, payload, metadata, at}], next: seq | null}
//	wake.explain*       {messageId | workItemId | questionId} -> {rule, outcome, targetAgentId?, endpointId?, candidates, reason, wake | null}
//	wake.reminded*      {remindedId?, page} -> {reminders, next}: of what somebody was reminded last, and nobody has touched since
//	prompt.contract*    {agentId, harnessType?, conversationId?, workItemId?} -> {contract, agentId, sections}
//
// A record that is made again with the same id by the same caller with the same
// params is answered with duplicate:true; with other params it is a conflict.
//
// # Routing
//
// A target is "endpoint:ID", a label (see [Label]), a role, a bare name or an
// identity. Names and roles are compared without case and punctuation; nothing is
// ever completed or guessed. Of several endpoints of one name that fit, live and
// wakeable ones come first, then those in the sender's announced project, then its
// workspace, then the one heard of last. Labels that fit several names, and names
// that different identities announced in different workspaces, are ambiguous,
// unless the sender's own place decides; the reason has labels or identities that are not,
// and what was named so stands in records as the identity that announced it. A role is
// looked for last, so that it takes nothing that is meant for one who is known by that name.
//
// The mentions with which a text begins route when a person wrote it (surface human
// from an agent's identity counts as agent). All other mentions are hints: they stand
// in the result and the event, and wake nobody. Agents route with targets only.
//
// Wake rules, in their order: explicit_mention (targets, then leading mentions),
// dependency_owner (only for work that waits for an agent, a person or a record), next_move_owner,
// owner, conversation_master (in a dm without one, the other side if it is an agent),
// none. A message of kind status or final, or about work that ended, wakes only who
// is named. If the first one named leads nowhere, the answer is unknown_target,
// ambiguous or unavailable, and the message is kept: details has messageId, askedLabel,
// candidates, deliveries.
//
// The sender is not woken by its own message unless that has followUp.
//
// A message that says nothing but thanks wakes nobody, whoever it names. What an agent says in
// a conversation other than a dm, about no work, wakes its master only if it names it.
//
// Parents and waits that lead back to the record itself are refused. Work is accepted or
// rejected by who requested it, by who has the next move while it is in review, or by people;
// by its owner only if that is nobody else, and nobody makes themselves the reviewer: who has the next
// move of another's work and hands it in gives that to who requested it. parentId null clears it.
//
// Creating and updating work wakes nobody unless the params have "wake":true, or
// work_item.wake is called; asking and answering a question wake the one whose move
// it then is. A completed flight brings its work to review, acceptance pending, next
// move to who requested it; with "wake":true that one is woken.
//
// A sweep reminds of work that is open, waiting or in review, of questions not yet closed, of
// messages that must be acknowledged and are not, and of flights that never began or whose agent
// is gone, if nothing happened to them for --stale-after, once per such period: first whose
// move it is (the dependency owner of waiting work), then the owner, who answers for the
// conversation, and who asked for it (rule requester; of a message only with followUp). Nobody is
// reminded twice, unless something happened in between; who has not come for a wake is passed
// over; and a person, who is told in the chat of the conversation or else in their own, is the last.
//
// # Decisions
//
// A decision is what a person decides for an agent: whether a tool may run with one set of
// arguments, which stand there without secrets, and whole by their hash. It is pending,
// then allowed, denied, expired or cancelled; what is allowed for longer than once may be
// revoked. Who decides is one of mayDecide, or a person at the command line; never an
// agent, but the one that asked passes on what people say in its chat (by). The first
// verdict counts, and the same one again changes nothing. What nobody decides before
// expiresAt takes its default. Who asked gets collab.decision.updated.
//
// # What an agent does
//
// It announces its endpoint when it connects, and again when a heartbeat gets not_found; a new
// endpoint takes the place of the former one of its identity, workspace and project. When it
// stops it sends identity.leave; it sends identity.heartbeat every third of the endpoint timeout,
// unless the last answer said watched: then the broker learns from bus:presence who is there, takes
// the endpoints of who left offline at once, and a heartbeat now and then is enough, for a broker
// that came in place of this one. On its
// own topic it gets, as collab_event:
//
//   - collab.delivery.woken, payload [collab.Wake]: deliveryId, rule, reason, senderId and
//     senderKind (human or agent; agents alone must not wake each other for ever), and whichever
//     of message, workItem, question, invocation, flight and conversation it is about.
//     It stores the event by its id (a repetition has the same one), sends
//     delivery.ack, and acts: flight.update running, then completed or failed;
//     work_item.update; question.answer; message.post with inReplyTo.
//   - collab.claim.offered, payload [collab.Claim]: an event that was refused to it is free.
//   - collab.question.updated, payload [collab.Question]: who was asked declined its question.
//
// For an event that needs a claim it calls claim.acquire, shows eventId and token with
// its reply, prolongs by acquiring again (the token stays), and ends with claim.release
// {answered:true} once it replied, or claim.decline when it will not. An answered event
// is never granted again. Without either the claim expires, and is offered again even
// though the reply may have been shown.
//
// # What a bridge does
//
// It shows a reply to an event that needs a claim only if claim.get gives a claim whose
// token is the reply's and whose ownerIdentity is the reply's from. (The owner is a
// name for people; two identities may share one.) Having shown it, the bridge may
// itself call claim.release {eventId, token, answered:true}.
//
// A conversation that a chat makes under its own identity is the chat's: its topic gets, as
// collab_event, what others do about the questions and work items of the conversation, and say in
// it, and the reminders of them that wake nobody.
//
// # Events
//
// The types and payloads are in protocol/collab. The source is who caused the event
// ("agent:lead", "tg:42"), or collab:broker for what the broker decides; the target is
// what it is about ("conversation:c1", "work_item:w1", "question:q1", "agent:lead",
// "flight:f1", "event:e1", ...). Published events carry their seq in metadata.seq.
//
// # Usage
//
//	db, err := store.Open(filepath.Join(data, "broker.db"), broker.Schema)
//	b := broker.New(db, peer.New(protocol.PeerBroker, &peer.Options{}), &broker.Options{StaleAfter: time.Hour})
//	err = b.Run(ctx)
package broker
