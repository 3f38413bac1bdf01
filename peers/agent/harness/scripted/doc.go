// Package scripted is a harness without a language model. Fixed rules show what an agent can do,
// for demonstrations, tests and first steps. Every text that it sends says so.
//
// Guarantees: the same event causes the same actions with the same idempotency keys. Each event
// causes at most one message, and none if the policy requires silence. Only the chat.* tools are
// used.
//
// The first matching rule applies. Case, and punctuation at the ends, do not matter. A text asks
// if it contains a question mark or a request such as please, can you, help, work on:
//
//	policy must_not_respond, or a digest     nothing
//	policy ack_only                          reaction seen
//	a thumbs-up for its own question         a message that it goes on
//	a knock                                  read the thread; claim the event if its text asks, else nothing
//	may_respond and the text does not ask    nothing
//	reason names an approval                 reaction agree
//	"discuss X with NAME"                    a question to that agent, which asks back, until their exchange is limited
//	thanks, ok, got it ... and nothing else  reaction seen
//	"react SIGNAL"                           that reaction
//	"work on X", "fix X", "deploy X" ...     reaction working, progress, reaction done
//	"later ...", "when you have time ..."    defer; when it comes back, a message that repeats it
//	"not you", "wrong agent"                 reaction declined
//	"do it", "fix it", "that one"            reaction unclear, and a question back
//	"catch up", "what did I miss"            list_events, and a message with the counts
//	"recap", "read the thread"               read_thread, and a message with the counts
//	"who are you", "help"                    a message with these rules in short
//	hello                                    a greeting
//	a question                               a message that answers it as far as rules can
//	anything else                            a message that repeats it
package scripted
