// Package markdown turns what agents write into what Telegram shows: texts with
// entities, cut into messages.
//
//	for _, part := range markdown.Split(markdown.Render("**hello**"), markdown.MaxUnits) {
//		send(part.Text, part.Entities)
//	}
//
// Guarantees:
//
//   - Any input renders. Rendering loses or changes no character that is not a
//     mark. Marks are marks only where a reader of a chat means them so:
//     5*4*3, 9~12, snake_case, bare addresses and paths are text. Nothing needs
//     escaping, because no parse mode of Telegram is used.
//   - Offsets and lengths are UTF-16 code units and within the text. Code has no
//     other entities, quotes do not nest, and links have http, https, tg or
//     mailto addresses. Every other address stays visible as text.
//   - A part has at most the given number of units and at most 100 entities, and
//     is never empty. Cuts fall between paragraphs, else between lines, else
//     between words, else anywhere but inside a character. A cut loses only
//     white space.
//
// The package does no I/O and keeps no state.
package markdown
