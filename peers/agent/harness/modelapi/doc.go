// Package modelapi asks a model's HTTP API and reads the stream of its answer.
// It knows the transport that such APIs share; packages openai and anthropic
// know what they say.
//
// Guarantees: one Post is one HTTP request, never repeated here. Redirects are
// not followed, since they would carry the key elsewhere. A stream that says
// nothing for Endpoint.Idle is broken off; a line is at most 4 MiB and an
// answer at most 32 MiB long. Errors are *turnloop.RequestError without the
// key, and say what to check.
package modelapi
