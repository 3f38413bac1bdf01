// Package transcript runs wire transcripts: text files with what clients send and what
// the bus must answer, which people can read whatever language they program in.
//
// A file begins with a title line and free text, followed by sections:
//
//	-- a > --            frames that connection a sends, one a line
//	-- a < --            frames that a must get next, one a line, in this order
//	-- a <any --         the same, in any order
//	-- a <among --       the same, and other frames may come before and between them
//	-- a > binary --     the lines are sent as binary frames
//	-- a connects --     dials a (a connection is dialled when first named, too)
//	-- a ends --         a closes its connection
//	-- a closed 4001 --  the bus must close a with this code
//	-- a silent --       a must get nothing until the bus has answered its next ping
//	-- repeat 5 --       the next section is run so many times
//
// Frames are compared by structure. In an expected frame, the string "$any"
// matches any value, "$string" any non-empty string, "$time" an RFC 3339 time;
// any other "$name" matches any value and remembers it, and must match the same
// value from then on. In a sent frame, "$name" stands for the remembered value.
// An object that holds the key "$more" may have members beside those listed.
// In a sent frame, "{{x*N}}" stands for N times the text x, and "{{0xff}}" for
// that byte.
package transcript
