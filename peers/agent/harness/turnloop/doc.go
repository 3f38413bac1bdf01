// Package turnloop runs the turns of harnesses that talk to a model's API: it
// asks the model, runs the tools that the model calls, asks again, until the
// model ends its turn. Packages openai and anthropic give it their Model.
//
// Guarantees:
//
//   - Tools run one after another, in the order in which the model named them.
//     An answer of the model that breaks off is dropped whole, none of its
//     tools is run, and the request is sent again.
//   - A request that failed for now (429, 5xx, a broken connection) is sent
//     again after what Retry-After says, else after 1 s doubled up to 30 s with
//     jitter, at most Options.Retries times. Requests that can never work fail
//     at once with harness.ErrPermanent.
//   - A turn ends at Options.MaxRounds requests (the last one without tools),
//     at Options.TokenBudget tokens or after Options.Time; the last two fail
//     with harness.ErrBudget.
//   - A model remembers the last turns of the same conversation, at most
//     Options.HistoryTurns and HistoryBytes, and nothing of any other. A turn
//     that failed before its first tool is not remembered.
//   - A tool's result is cut at Options.ResultBytes, and the model is told so.
//
// Tool names are rewritten for the API, which allows letters, digits, _ and -
// only: chat.send_message is chat_send_message to the model.
package turnloop
