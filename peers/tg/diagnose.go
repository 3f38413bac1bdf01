package tg

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"hubbub/peers/store"
	"hubbub/peers/tg/botapi"

	"github.com/go-telegram/bot/models"
)

// A Finding is the result of one check of Diagnose.
type Finding struct {
	Check   string `json:"check"`
	Level   Level  `json:"level"`
	Message string `json:"says"`
	Advice  string `json:"advice,omitempty"` // what to do about it, if anything
}

// A Level is the severity of a finding.
type Level string

// The levels of a finding.
const (
	LevelOK      Level = "ok"
	LevelWarning Level = "warning" // it works, but perhaps not as expected
	LevelProblem Level = "problem" // it does not work
	LevelSkipped Level = "skipped" // it could not be checked
)

// A BridgeState describes the bot's own bridge, so that its polls and webhook are not reported as
// problems.
type BridgeState struct {
	Runs    bool   // it is online on the bus
	Webhook string // the address that it last gave Telegram, if any
}

// WebhookOf returns the address that the bridge of a bot last gave Telegram, or "" if it polls.
func WebhookOf(ctx context.Context, db *store.DB, bot int64) (string, error) {
	return store.ReadValue[string](ctx, db, `SELECT webhook_url FROM bots WHERE bot = ?`, bot)
}

// clockTolerance is the difference between two clocks that is not reported.
const clockTolerance = 30 * time.Second

// Diagnose checks a bot from outside: whether Telegram can be reached, accepts the token, and
// delivers updates to no other program; what privacy mode hides; and whether the clock of this
// machine is right. It changes nothing at Telegram. If another program is polling, its current
// poll fails with a conflict and it polls again.
func Diagnose(ctx context.Context, token string, opts *botapi.Options, bridge BridgeState) []Finding {
	if botapi.CheckToken(token, opts) != nil {
		return []Finding{{"bot token", LevelProblem,
			"TELEGRAM_BOT_TOKEN does not contain a bot token. A token looks like 110201543:AAE...",
			"Set it to the token from @BotFather, without quotes or spaces."}}
	}
	api := botapi.New(token, opts)
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	var me models.User
	before := time.Now()
	date, err := api.CallDate(ctx, "getMe", nil, &me)
	switch {
	case botapi.Unauthorized(err):
		return []Finding{{"bot token", LevelProblem, "Telegram does not accept the bot token.",
			"Check TELEGRAM_BOT_TOKEN, or make a new token with /token at @BotFather."}}
	case err != nil:
		return []Finding{{"bot token", LevelProblem, "Telegram cannot be reached: " + err.Error(),
			"Check the network, a proxy in HTTPS_PROXY, and --api-url."}}
	}
	out := []Finding{
		{Check: "bot token", Level: LevelOK,
			Message: fmt.Sprintf("Telegram accepts it: the bot is @%s, ID %d.", me.Username, me.ID)},
		checkPrivacy(&me), checkClock(date, before, time.Now()),
	}
	var hook models.WebhookInfo
	if err := api.Call(ctx, "getWebhookInfo", nil, &hook); err != nil {
		return append(out, Finding{Check: "webhook", Level: LevelSkipped,
			Message: "Telegram did not answer: " + err.Error()})
	}
	hook.LastErrorMessage = api.Redact(hook.LastErrorMessage)
	out = append(out, checkWebhook(&hook, bridge, time.Now()))
	if hook.URL == "" {
		out = append(out, checkPoller(ctx, api, bridge.Runs))
	}
	return out
}

// checkPrivacy reports what privacy mode hides.
func checkPrivacy(me *models.User) Finding {
	if me.CanReadAllGroupMessages {
		return Finding{Check: "privacy mode", Level: LevelOK,
			Message: "It is off: in groups the bot sees every message."}
	}
	return Finding{"privacy mode", LevelWarning,
		fmt.Sprintf("It is on: in groups the bot sees only commands, messages that mention @%s, and replies to its "+
			"own messages. "+
			"A message such as \"@reviewer have a look\" names an agent, not the bot, and never arrives.", me.Username),
		"For agents that listen in groups, turn it off with /setprivacy at @BotFather, then remove the bot from each " +
			"group and add it again; or make the bot an administrator there. Direct chats are not affected."}
}

// checkClock compares the clock of this machine, before and after a call, with the server's.
func checkClock(server, before, after time.Time) Finding {
	if server.IsZero() {
		return Finding{Check: "clock", Level: LevelSkipped, Message: "Telegram did not send the time."}
	}
	// The server's date is rounded down to seconds, and was written between the
	// two.
	off := max(server.Sub(after), 0) + min(server.Add(time.Second).Sub(before), 0)
	if off.Abs() <= clockTolerance {
		return Finding{Check: "clock", Level: LevelOK, Message: "It agrees with Telegram's."}
	}
	side := "behind"
	if off < 0 {
		side = "ahead of"
	}
	return Finding{Check: "clock", Level: LevelProblem,
		Message: fmt.Sprintf("The clock of this machine is %s %s Telegram's, so log times, waits and deadlines are "+
			"wrong.", off.Abs().Round(time.Second), side),
		Advice: "Set the clock, best with NTP (timedatectl set-ntp true)."}
}

// recentFailure is how long a failed delivery to a webhook is reported. Telegram retries within
// minutes and does not report a later success.
const recentFailure = 15 * time.Minute

// hostOf returns the host of an address, or none if it has none.
func hostOf(address, none string) string {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		return u.Host
	}
	return none
}

// checkWebhook distinguishes the bridge's own webhook from a stale one.
func checkWebhook(info *models.WebhookInfo, bridge BridgeState, now time.Time) Finding {
	if info.URL == "" {
		return Finding{Check: "webhook", Level: LevelOK,
			Message: fmt.Sprintf("None is set; %d updates are waiting to be polled.", info.PendingUpdateCount)}
	}
	host := hostOf(info.URL, "an address that cannot be read")
	failure, ago := "", now.Sub(time.Unix(int64(info.LastErrorDate), 0)).Round(time.Second)
	if info.LastErrorMessage != "" {
		failure = fmt.Sprintf(" The last delivery failed %s ago: %s", ago, info.LastErrorMessage)
	}
	waiting := fmt.Sprintf(" %d updates are waiting.", info.PendingUpdateCount)
	switch {
	case info.URL != bridge.Webhook:
		return Finding{"webhook", LevelProblem,
			"Telegram delivers this bot's updates to " + host + ", so the bot cannot be polled." + waiting + failure,
			"If none of your programs listens there, remove it with `hubbub doctor --delete-webhook`; waiting " +
				"updates are kept. If it belongs to a hubbub-tg with --webhook-url, run doctor with the --data of " +
				"that program."}
	case !bridge.Runs:
		return Finding{"webhook", LevelProblem,
			"Telegram delivers this bot's updates to " + host +
				", the address of this data folder's bridge, which is not online." + waiting + failure,
			"Start hubbub-tg; without --webhook-url it removes the webhook and polls."}
	case failure != "" && info.PendingUpdateCount > 0 && ago < recentFailure:
		return Finding{"webhook", LevelProblem,
			"Telegram cannot deliver to this bridge at " + host + "." + waiting + failure,
			"Check that --webhook-url, its certificate and any proxy lead to --webhook-listen."}
	}
	return Finding{Check: "webhook", Level: LevelOK,
		Message: "Telegram delivers to this bridge at " + host + "." + waiting}
}

// checkPoller detects another poller. Telegram answers one of two concurrent polls with a
// conflict. Its poll requests and confirms no updates.
func checkPoller(ctx context.Context, api *botapi.Client, running bool) Finding {
	const look = 7 * time.Second // another poller repeats its poll some seconds after a conflict
	if running {
		return Finding{Check: "second poller", Level: LevelSkipped,
			Message: "The bridge of this data folder is polling; it reports a second poller in its log."}
	}
	err := api.Call(ctx, "getUpdates", map[string]any{"limit": 1, "timeout": int(look / time.Second)}, nil)
	switch {
	case err == nil:
		return Finding{Check: "second poller", Level: LevelOK, Message: "No other program polls this bot."}
	case botapi.Code(err) == http.StatusConflict:
		return Finding{"second poller", LevelProblem,
			"Another program polls this bot, and Telegram sends each update to only one of them.",
			"Stop the other program: an older hubbub-tg, or another bot program with the same token. If you cannot " +
				"find it, make a new token with /revoke at @BotFather."}
	default:
		return Finding{"second poller", LevelSkipped, "It could not be checked: " + err.Error(), ""}
	}
}

// DeleteWebhook removes a bot's webhook and keeps the pending updates.
func DeleteWebhook(ctx context.Context, token string, opts *botapi.Options) error {
	if err := botapi.CheckToken(token, opts); err != nil {
		return err
	}
	api := botapi.New(token, opts)
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	return api.Call(ctx, "deleteWebhook", map[string]any{"drop_pending_updates": false}, nil)
}
