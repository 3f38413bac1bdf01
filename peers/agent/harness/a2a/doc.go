// Package a2a runs turns on an agent elsewhere that speaks A2A 1.0: what was said to it is
// sent as a message, by JSON-RPC or HTTP+JSON as its card says, and what comes of the task
// is the answer.
//
// Guarantees:
//
//   - The agent elsewhere gets the words of the event alone, with pictures if its card takes
//     them: no rules, no tools, no earlier messages, nothing of ours. An event that owes no
//     answer is not sent: there is no tool with which one could be given. Messages of one conversation
//     are of one context of the agent, and an answer to what it asked goes to the task that asked.
//   - A turn ends with the task. A stream that breaks off is no end: the task is asked for
//     until it has ended. What ends the turn before cancels the task, for whose
//     id it waits a moment.
//   - A message has the same id over all attempts of its turn. It is sent again only where
//     the agent elsewhere said nothing of it.
//   - The token goes to the host of the address that the operator gave and to no other that
//     a card names, and no redirect is followed. Which addresses are called is for
//     the transport to say.
//   - An answer and a card are bounded (maxAnswer).
package a2a
