// Package a2a runs turns on a remote agent that speaks A2A 1.0. It sends an event as a message,
// by JSON-RPC or HTTP+JSON as the agent's card says. The result of the task is the answer.
//
// Guarantees:
//
//   - The remote agent receives the prompt of the event: header, policy and the fenced text, with
//     images if its card accepts them. The standing rules and the collaboration contract come
//     before it when a conversation begins or when they have changed. It receives no tools and no
//     earlier messages. An event that requires no answer is not sent, since the agent has no tool
//     to answer it. The messages of one conversation share one context of the agent. If the agent
//     asked something, the next message goes to the task that asked.
//   - A turn ends with its task. If a stream breaks, the task is polled until it
//     has ended. If the turn ends first, the task is canceled; the turn waits
//     briefly for the task's ID.
//   - A message has the same ID in all attempts of its turn. It is sent again
//     only if the remote agent did not answer.
//   - The token is sent only to the host of the operator's address, not to other
//     hosts that a card names. Redirects are not followed. The transport decides
//     which addresses may be called.
//   - Answers and cards are bounded (maxAnswer).
package a2a
