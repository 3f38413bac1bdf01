// Package collab is the contract of the collaboration broker: its records, its
// methods with their params and results, its errors and its events, as both sides
// use them. What the methods do is told in package broker.
//
// # Guarantees
//
//   - Wire: these types are what travels. Every record, result and event is
//     written with the member names, their order and the omissions that are given
//     here; names and times of records are the broker's.
//   - Types: a [Method] ties a name to its params and its result, an [EventType] a
//     name to its payload, so that the compiler checks the broker and its clients
//     against each other.
//   - Reading is lenient: absent members keep their zero value, and members that
//     are not known here are passed over. A [Listed] record keeps the bytes that
//     the broker wrote, unknown members included.
//   - Errors: a request that the broker refused fails with an *[Error], one that
//     found no broker with [ErrNoBroker].
//
// # Usage
//
//	grant, err := collab.ClaimAcquire.Ask(ctx, client, collab.ClaimParams{EventID: id})
//
// where client is a Client of package peers/collab. A request that must survive a
// restart is made with [Method.Message] and sent through an outbox.
package collab
