// Package transcript runs wire transcripts: readable text files with the frames that clients send
// and the frames that the bus must answer. They do not depend on a programming language.
//
// A file begins with a title line and free text, followed by sections:
//
//	-- a > --            frames that connection a sends, one per line
//	-- a < --            frames that a must get next, one per line, in this order
//	-- a <any --         the same, in any order
//	-- a <among --       the same, and other frames may come before and between them
//	-- a > binary --     the lines are sent as binary frames
//	-- a connects --     dials a (which also happens when a connection is first named)
//	-- a ends --         a closes its connection
//	-- a closed 4001 --  the bus must close a with this code
//	-- a silent --       a must get nothing until the bus has answered its next ping
//	-- repeat 5 --       the next section is repeated that many times
//
// Frames are compared by structure. In an expected frame, the string "$any" matches any value,
// "$string" any non-empty string, and "$time" an RFC 3339 time. Any other "$name" matches any
// value at first, and after that only the same value. In a sent frame, "$name" is replaced by
// that value. An object with the key "$more" may have members that are not listed. In a sent
// frame, "{{x*N}}" is replaced by N times the text x, and "{{0xff}}" by that byte.
package transcript
