// Package model runs the turns of harnesses that talk to a model's HTTP API: it
// asks the model, runs the tools that the model calls, and asks again until the
// model ends its turn. There is one loop, one reader of streams and one set of
// bounds; openai.go and anthropic.go know only the words of their API.
//
// OpenAI speaks the chat completions API of OpenAI itself, vLLM, Ollama,
// llama.cpp, OpenRouter, Gemini's compatible endpoint and others: an endpoint
// that ignores streaming, knows only max_tokens or only max_completion_tokens,
// refuses stream_options or tools, sends arguments as an object, content in parts
// or a function_call is met halfway; the log says once what was learned. Anthropic speaks the Messages API:
// the system prompt and the tools are marked for its prompt cache, and an answer
// that the API pauses is continued.
//
// Guarantees:
//
//   - Tools run one after another, in the order in which the model named them.
//     An answer that breaks off (neither finish_reason nor [DONE], no message_stop,
//     an error in the stream) is dropped whole, none of its tools is run, and the request is
//     sent again.
//   - A request that failed for now (429, 5xx, a broken connection) is sent
//     again after what Retry-After says, else after 1 s doubled up to 30 s with
//     jitter, at most Options.Retries times. Requests that can never work fail
//     at once with harness.ErrPermanent.
//   - A turn ends at Options.MaxIterations requests (the last one without tools),
//     at Options.TokenBudget tokens or after Options.Time; the last two fail
//     with harness.ErrBudget.
//   - A stream that is silent for Options.Idle is broken off; a line is at most
//     4 MiB and an answer at most 32 MiB long; an answer has at most 256 parts,
//     and the arguments of a call at most 1 MiB.
//   - A model remembers the last turns of the same conversation, at most
//     Options.HistoryTurns and HistoryBytes, and nothing of any other. A turn
//     that failed before its first tool is not remembered.
//   - A tool's result is cut at 32 KiB, and the model is told so.
//   - The key is asked for at each request and goes only to the base URL:
//     redirects are not followed. It appears in no error.
//
// Tool names are rewritten for the APIs, which allow letters, digits, _ and -
// only: chat.send_message is chat_send_message to the model.
package model
