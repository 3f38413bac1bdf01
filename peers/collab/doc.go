// Package collab is the client of the collaboration broker. It sends requests, waits for their
// answers, claims events, and keeps an agent announced. Package protocol/collab has the requests.
//
// # Guarantees
//
//   - Answers: a request gets its own answer, in any order, or fails after Patience.
//     An answer counts only if it comes from the broker.
//   - No broker: a request fails at once with collab.ErrNoBroker if the bus reports
//     that there is no broker. A request that the broker did not take fails at once too.
//   - Grace: a broker that went away may be restarting. It counts as known for Grace,
//     and Claim and ClaimOf wait for it, so that no agent answers an event that another
//     has claimed. With Options.Remember and Recall this also holds at a program's start.
//   - Presence: Attend announces an endpoint and sends a heartbeat every 10 s unless the
//     broker watches the bus. It announces the endpoint again if the broker does not know
//     it. If there is no broker, it looks for one after 30 s, and then less and less
//     often, down to every 15 minutes. After Look, it looks within 30 s. The program calls
//     Heard for any other message from the broker, which shows that the broker is online.
//   - Blocking: Call waits for the connection, the bus and the broker, for Patience in
//     total or until its context ends. A Client starts no goroutine.
//   - Loss: a request is sent once. A request that must arrive is made with
//     collab.Method.Message and sent through an outbox. Its answer is only logged, if it
//     is a refusal.
//
// # Usage
//
//	client := collab.New(p.ID(), p.Send, nil)
//	p.Handle(protocol.TypeCollabResult, client.Take)
//	go client.Attend(ctx, announcement, nil)
//	grant, err := client.Claim(ctx, eventID, collab.ClaimTTL)
//
// All methods may be called concurrently.
package collab
