// Package markdown converts the Markdown of agents to messages of chats: for Telegram to texts
// with entities, for Matrix to texts with HTML, both split to a limit.
//
//	for _, part := range markdown.Split(markdown.Render("**hello**"), markdown.MaxUnits) {
//		send(part.Text, part.Entities)
//	}
//	for _, m := range markdown.Messages("**hello**", 16<<10) {
//		send(m.Text, m.HTML)
//	}
//
// Guarantees:
//
//   - Any input renders, in linear time. Rendering drops or changes only marks. A character is a mark only
//     where a reader of a chat would see one: 5*4*3, 9~12, snake_case, ***-**-1234, bare
//     addresses and paths are text. Nothing needs escaping, because no parse mode of Telegram is used.
//   - Offsets and lengths are UTF-16 code units within the text. Code has no other entities,
//     quotes do not nest, and links have http, https, tg or mailto addresses. Any other
//     address remains visible as text.
//   - A part has at most the given number of units and at most 100 entities, and is never
//     empty. A text is split between paragraphs, else between lines, else between words, else
//     anywhere except inside a character. Splitting drops only white space.
//
// The package does no I/O and keeps no state.
package markdown
