// Package model implements the harnesses that call a model's HTTP API. It asks the model, runs
// the tools that the model calls, and asks again until the model ends its turn. The loop, the
// stream reader and the limits are shared; openai.go and anthropic.go hold only the dialects of
// their APIs.
//
// OpenAI speaks the chat completions API of OpenAI, vLLM, Ollama, llama.cpp, OpenRouter, Gemini's
// compatible endpoint and others. It adapts to endpoints that ignore streaming, that know only
// max_tokens or only max_completion_tokens, that refuse stream_options or tools, and that send
// arguments as an object, content in parts or a function_call. Each adaptation is logged once.
// Anthropic speaks the Messages API: it marks the system prompt and the tools for the prompt
// cache, and continues an answer that the API pauses.
//
// Guarantees:
//
//   - Tools run one after another, in the order of the model's calls. An
//     incomplete answer (no finish_reason or [DONE], no message_stop, an error
//     in the stream) is dropped, none of its tools runs, and the request is
//     sent again.
//   - A request that failed temporarily (429, 5xx, a broken connection) is sent
//     again, at most Options.Retries times: after Retry-After if the API sent
//     it, else after 1 s, doubled up to 30 s, with jitter. A request that can
//     never succeed fails immediately with harness.ErrPermanent.
//   - A turn ends after Options.MaxIterations requests (the last one without
//     tools), Options.TokenBudget tokens or Options.Timeout. The last two fail
//     with harness.ErrBudget.
//   - A stream that is silent for Options.IdleTimeout is canceled. A line has
//     at most 4 MiB, an answer at most 32 MiB and 256 parts, and the arguments
//     of a call at most 1 MiB.
//   - A model remembers the last turns of the same conversation, at most
//     Options.HistoryTurns and HistoryBytes, and nothing of any other. A turn
//     that failed before its first tool call is not remembered.
//   - A tool result is cut at 32 KiB, with a note to the model.
//   - The key is read for each request and sent only to the base URL; redirects
//     are not followed. It appears in no error.
//
// Tool names are rewritten for the APIs, which allow only letters, digits, _ and -: a model
// knows chat.send_message as chat_send_message.
package model
