// Package botapi calls Telegram's Bot API.
//
//	c := botapi.New(token, nil)
//	var me models.User
//	err := c.Call(ctx, "getMe", nil, &me)
//
// Guarantees:
//
//   - The token leaves the process only in the request line. It is removed from every
//     error and description, in its plain and its escaped spelling.
//   - An error says whether the call may have had an effect. *Error is a refusal: there was
//     no effect. *TransportError with Left false never left the machine; with Left true the
//     outcome is unknown.
//   - A call is made once. Nothing is retried, and redirects are not followed.
//   - Answers are read up to a limit. Downloads are streamed.
//
// A Client has no state except its connections. It is safe for concurrent use.
package botapi
