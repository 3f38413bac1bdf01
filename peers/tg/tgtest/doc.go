// Package tgtest is a Bot API server for tests and demos: an http.Handler that behaves towards
// one bot as Telegram does.
//
//	api := tgtest.New(nil)
//	web := httptest.NewServer(api)
//	will := api.User("Will")
//	api.Say(api.DM(will), will, "hello")     // what a user does
//	... the bot polls web.URL and answers ...
//	api.Await(ctx, func(*tgtest.Server) bool { // what the bot did, in order
//		return len(api.Texts(will.ID)) == 1
//	})
//
// Guarantees:
//
//   - An update is confirmed only by a later getUpdates with a higher offset; until then
//     every call returns it again. A negative offset drops all earlier updates. A poll is
//     answered with 409 when another one begins, and while a webhook is set.
//   - Bodies are JSON, and texts have entities. Parse modes are refused.
//   - Whatever Telegram refuses is refused with the same status and words: texts over 4,096
//     UTF-16 units, entities out of bounds, unknown reactions, the General topic as a
//     thread, chats that have moved.
//   - Calls that change something are recorded in the order in which they took effect,
//     including those whose answer was cut off by a fault.
//
// A Server keeps everything in memory, does not need the testing package, and is safe for
// concurrent use. New starts nothing. Only webhook deliveries need Run.
package tgtest
