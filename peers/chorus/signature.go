package chorus

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"hubbub/protocol/text"
)

// replayWindow is how far the time of a signed post may differ from ours.
const replayWindow = 5 * time.Minute

// postIDRule matches valid post IDs, which appear in IDs and logs.
var postIDRule = text.Pattern(`^[A-Za-z0-9._:/+=-]{1,128}$`)

// Errors of posts to hooks.
var (
	errNoHook   = newHTTPError(http.StatusNotFound, "there is no such hook; hubbub hook list lists the hooks")
	errUnsigned = newHTTPError(
		http.StatusForbidden,
		"the post is not signed: send webhook-id, webhook-timestamp and webhook-signature (Standard Webhooks), or "+
			"X-Hub-Signature-256",
	)
	errSigned = newHTTPError(http.StatusForbidden,
		"the signature does not match: sign the body as it is sent, with the secret of this hook")
)

// checkSignature verifies a post and returns the ID by which it is recognized. It accepts the
// signature of Standard Webhooks, over ID, time and body, and that of GitHub, over the body. A post
// from GitHub is recognized by its body, since anybody who replays it can change its headers.
func checkSignature(header http.Header, body []byte, secret string, now time.Time) (id string, err error) {
	id, stamp, signature := header.Get("webhook-id"), header.Get("webhook-timestamp"), header.Get("webhook-signature")
	github := header.Get("X-Hub-Signature-256")
	switch {
	case signature != "":
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, hookSecret))
		if err != nil {
			return "", err
		}
		if !signedBy(signature, sign(key, []byte(id+"."+stamp+"."), body)) {
			return "", errSigned
		}
		return checkStamp(id, stamp, now)
	case github != "":
		given, err := hex.DecodeString(strings.TrimPrefix(github, "sha256="))
		sum := sign([]byte(secret), body)
		if err != nil || !hmac.Equal(given, sum) {
			return "", errSigned
		}
		known := sha256.Sum256(sum) // the ID appears in logs, so it must not be a signature
		return "body-" + hex.EncodeToString(known[:16]), nil
	}
	return "", errUnsigned
}

func sign(key []byte, parts ...[]byte) []byte {
	mac := hmac.New(sha256.New, key)
	for _, part := range parts {
		_, _ = mac.Write(part) // never fails
	}
	return mac.Sum(nil)
}

// signedBy reports whether a header contains the signature sum. A sender may sign with several
// secrets.
func signedBy(header string, sum []byte) bool {
	for given := range strings.FieldsSeq(header) {
		version, signature, _ := strings.Cut(given, ",")
		raw, err := base64.StdEncoding.DecodeString(signature)
		if version == "v1" && err == nil && hmac.Equal(raw, sum) {
			return true
		}
	}
	return false
}

// checkStamp refuses a post with an old timestamp or an invalid ID.
func checkStamp(id, stamp string, now time.Time) (string, error) {
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "", newHTTPError(http.StatusBadRequest, "webhook-timestamp must be a number of seconds since 1970")
	}
	if away := now.Sub(time.Unix(seconds, 0)).Abs(); away > replayWindow {
		return "", newHTTPError(
			http.StatusBadRequest,
			"webhook-timestamp differs by more than 5 minutes from this machine's clock: sign the post when it is "+
				"sent, and compare the clocks",
		)
	}
	if !postIDRule().MatchString(id) {
		return "", newHTTPError(http.StatusBadRequest,
			"webhook-id must have 1 to 128 letters, digits, or . _ : / + = -")
	}
	return id, nil
}
