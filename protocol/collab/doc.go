// Package collab is the contract of the collaboration broker: its records, its methods with their
// params and results, its errors and its events. The broker and its clients share it. Package
// broker documents the behavior of the methods.
//
// # Guarantees
//
//   - Wire: these types are the wire format. Every record, result and event has the member
//     names, order and omissions that are declared here. The broker sets names and times in
//     records.
//   - Types: a [Method] ties a name to its params and its result, and an [EventType]
//     ties a name to its payload. The compiler checks the broker and its clients
//     against each other.
//   - Reading is lenient: absent members keep their zero value, and unknown members
//     are ignored. A [Listed] record keeps the bytes that the broker wrote, including
//     unknown members.
//   - Errors: a request that the broker refuses fails with an *[Error]. Without a broker,
//     a request fails with [ErrNoBroker].
//
// # Usage
//
//	grant, err := collab.ClaimAcquire.Ask(ctx, client, collab.ClaimParams{EventID: id})
//
// Here client is a Client of package peers/collab. For a request that must survive a restart,
// [Method.Message] makes a message for an outbox.
package collab
