// Package collab is the client of the collaboration broker: it asks, waits for the
// answer, claims events, and keeps an agent announced. What can be asked, and how,
// is package protocol/collab.
//
// # Guarantees
//
//   - Answers: a request gets its own answer, in whatever order answers come, or
//     fails after Patience. An answer counts only if it comes from the broker.
//   - No broker: a request fails at once with collab.ErrNoBroker if the bus says that
//     there is none. A request that the broker did not take fails at once too.
//   - Grace: a broker that was there and went away may be restarting: for Grace it
//     counts as known, and Claim and ClaimOf wait for it. So nobody answers an event
//     that somebody else has claimed, only because the broker restarts. With
//     Options.Remember and Recall this holds for a program that starts as well.
//   - Presence: Attend announces an endpoint, sends a heartbeat every 10 s unless the broker watches the bus, announces
//     again if the broker does not know the endpoint, and looks for a broker every
//     30 s where there is none.
//   - Blocking: Call waits for the connection, the bus and the broker, Patience
//     altogether or until its context ends. A Client starts no goroutine.
//   - Loss: a request is sent once. One that must arrive is made with
//     collab.Method.Message and sent through an outbox; the answer to it is only
//     logged, if it is a refusal.
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
