// Package modelapi asks a model's HTTP API and reads the stream of its answer.
// It knows what such APIs share: settings, key, transport, failures; packages
// openai and anthropic know what they say.
//
// Guarantees: one Ask is one HTTP request, never repeated here. Redirects are
// not followed, since they would carry the key elsewhere. A stream that says
// nothing for Options.Idle is broken off; a line is at most 4 MiB and an
// answer at most 32 MiB long. Errors are *turnloop.RequestError without the
// key, and say what to check.
package modelapi
