// Package tgtest is a Bot API server for tests and demonstrations: an
// http.Handler that one bot can talk to as it would talk to Telegram.
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
//   - An update is confirmed only by a later getUpdates with a higher offset;
//     until then every call returns it again. A negative offset forgets all
//     earlier updates. A poll that is running when another begins, and every
//     poll while a webhook is set, is answered 409.
//   - Bodies are JSON, and texts carry entities: the rest of what the Bot API
//     reads (forms, parse modes) is refused.
//   - Whatever Telegram refuses is refused with its status and wording: texts
//     over 4,096 UTF-16 units, entities out of bounds, reactions that are not
//     on the list, the General topic as a thread, chats that moved.
//   - Calls that change something are recorded in the order in which they took
//     effect, also those whose answer was cut off by a fault.
//
// It keeps everything in memory, needs no testing package, and is safe for
// concurrent use. New starts nothing. Only webhook deliveries need Run.
package tgtest
