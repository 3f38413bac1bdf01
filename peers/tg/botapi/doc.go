// Package botapi calls Telegram's Bot API.
//
//	c := botapi.New(token, nil)
//	var me models.User
//	err := c.Call(ctx, "getMe", nil, &me)
//
// Guarantees:
//
//   - The token leaves the process only in the request line. It is cut out of
//     every error and description, in its plain and its escaped spellings; there
//     is no other client in the bridge.
//   - An error says whether the call can have had an effect: *Error is an answer
//     (the call had none), *TransportError with Left false never left the
//     machine, with Left true the outcome is unknown.
//   - A call is made once: nothing is retried here, and redirects are not
//     followed.
//   - Answers are read up to a limit, downloads are streamed.
//
// A Client has no state but its connections and is safe for concurrent use.
package botapi
