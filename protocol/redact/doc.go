// Package redact finds secrets by their shape, in texts that are to be kept or given to
// a model, and puts their names in their places.
//
// Guarantees:
//
//   - It changes nothing else: what holds no secret is returned as it is, not copied.
//     JSON stays JSON, since what it removes is one word of a string.
//   - Its time is linear in the text, whatever that holds, and it takes about a
//     nanosecond a byte where there is no secret.
//   - Bytes knows shapes, not secrets: a password that is a word passes. Arguments also
//     removes what a name such as "password" says is secret.
//
// The rules are those of gitleaks whose secrets begin with letters of their own
// (gitleaks.txt; scripts/secret-rules writes it), and a few of ours (table own).
package redact
