// Package markdown turns what agents write into what Telegram shows: texts with
// entities, cut into messages.
//
//	for _, part := range markdown.Split(markdown.Render("**hello**"), markdown.MaxUnits) {
//		send(part.Text, part.Entities)
//	}
//
// Guarantees:
//
//   - Any input renders: what is no Markdown stays as it is written, raw HTML
//     included. Nothing needs escaping, because no parse mode is used.
//   - Offsets and lengths are UTF-16 code units and within the text. Code stands
//     in no other entity, quotes do not nest, links have http, https, tg or mailto
//     addresses; every other address stays visible as text.
//   - A part has at most the given number of units and at most 100 entities, and is
//     never empty. Cuts fall between paragraphs, else between lines, else between
//     words, else anywhere but inside a character. Nothing but white space at a
//     cut is lost.
//
// Everything is pure: no I/O, no state.
package markdown
