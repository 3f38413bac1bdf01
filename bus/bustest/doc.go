// Package bustest runs a real bus inside a test, with scripted peers, for tests of anything
// that speaks to a bus.
//
//	b := bustest.Start(t, nil)
//	agent := b.Join(t, "agent:lead", "agent:lead")
//	result := b.Join(t, "tg:1").Send(t, "agent:lead", protocol.TypeTGMessage, protocol.ChatMessage{Text: "hello"})
//	d := agent.Next(t)
//
// Guarantees:
//
//   - The bus is the real one. URL is a listener on loopback. Dial connects in memory, and
//     works inside a synctest bubble if StartInMemory has started the bus there.
//   - Everything that was started ends before the test does.
//   - A wait for something that never comes fails the test after a while, or at once in a bubble.
package bustest
