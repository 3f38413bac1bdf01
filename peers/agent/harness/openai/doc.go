// Package openai runs turns on any endpoint that speaks OpenAI's chat
// completions API: OpenAI itself, vLLM, Ollama, llama.cpp, OpenRouter, Gemini's
// compatible endpoint and others.
//
// Guarantees, beside those of package turnloop: answers are streamed, tool
// calls may come in any number of pieces, and an answer that ends without a
// finish_reason counts as broken. An endpoint that ignores streaming, knows
// only max_tokens or only max_completion_tokens, or refuses stream_options is
// met halfway. The key (OPENAI_API_KEY, or the file that OPENAI_API_KEY_FILE
// names) is read anew at each request and goes only to the base URL.
//
// Models see the chat tools as chat_send_message and so on, because the API
// refuses dots in names.
package openai
