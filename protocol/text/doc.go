// Package text shortens texts for people, finds characters that people cannot see, chooses fences
// for code, and decodes the texts of files. Its functions never split a character.
package text
