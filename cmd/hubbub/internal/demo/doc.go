// Package demo plays a chat to the real programs and shows what they do: the
// conversation on the left, the rows of the activity log on the right.
//
// A Stage is the Telegram of the demo: a Bot API server in this process, to
// which people of the play, and whoever types, write. A Narrator reads the
// activity log while the bus writes it and prints both sides. A Play is the
// script: what is said, and what must be seen before it goes on.
//
// Guarantees:
//
//   - Nothing on the right is made up: each line comes from rows of the log,
//     whose numbers it shows.
//   - A scene ends when what it waits for has happened, never after a time. If
//     it does not happen within Patience, the play ends with an error that
//     says what was missing.
//   - The endpoint for people who type needs the key that the demo writes into
//     its data folder, readable by its owner alone.
package demo
