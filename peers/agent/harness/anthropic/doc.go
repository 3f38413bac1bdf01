// Package anthropic runs turns on Anthropic's Messages API.
//
// Guarantees, beside those of package turnloop: answers are streamed, an answer
// that ends without message_stop counts as broken, the system prompt and the
// tools are marked for the API's prompt cache, and an answer that the API
// pauses is continued. The key (ANTHROPIC_API_KEY, or the file that
// ANTHROPIC_API_KEY_FILE names) is read anew at each request and goes only to
// the base URL.
//
// Models see the chat tools as chat_send_message and so on, because the API
// refuses dots in names. The package speaks HTTP itself: the official SDK would
// add 8 MB to every binary.
package anthropic
