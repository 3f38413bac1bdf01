// Package redact finds secrets by their shape, in texts that are stored or given to a model, and
// replaces them with the names of their rules.
//
// Guarantees:
//
//   - It changes nothing else: a text without secrets is returned uncopied. JSON remains JSON,
//     because every replaced secret is part of a string.
//   - Its time is linear in the text, and about a nanosecond per byte where there is no secret.
//   - Bytes finds only secrets with a known shape, and not, for example, a password that is a
//     word. Arguments also removes values with secret names, such as "password".
//
// The rules are those of gitleaks whose secrets begin with distinctive letters (gitleaks.txt,
// written by scripts/secret-rules), and a few of our own (ownRules).
package redact
