// Package text shortens texts for people, finds characters that people cannot see, and decodes the
// texts of files. Its functions never split a character.
package text
