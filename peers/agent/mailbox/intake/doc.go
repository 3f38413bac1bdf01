// Package intake stores the events of chats in the mailbox. Edits and deletions change the events that they are
// about, and answers to questions are passed on. Each event is stored once per (event, sourceId, sequence).
package intake
