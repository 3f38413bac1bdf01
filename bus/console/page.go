package console

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/bus/report"
	"hubbub/protocol/collab"
	"hubbub/protocol/text"
)

//go:embed templates/*.html
var templateFiles embed.FS

// parsePages returns the templates by name, each with the layout. titles has the titles of chats
// for them, and now returns the time.
func parsePages(titles *view.Titles, now func() time.Time) map[string]*template.Template {
	list := map[string]*template.Template{}
	names := template.FuncMap{
		"clock":    func(t time.Time) string { return clock(now(), t) },
		"called":   plain(func(id string) string { return nameOf(titles, id) }),
		"labelled": plain(titles.Called), // the form that filters accept
		"named":    plain(func(name string) string { return personOrAgent(titles, name) }),
	}
	shared := template.Must(template.New("layout").Funcs(functions).Funcs(names).
		ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	for _, name := range []string{
		"topology", "activity", "message", "agents", "agent", "chat", "peer", "work", "item",
		"decisions", "obligations", "health", "refused", "enter",
	} {
		list[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return list
}

// A request is one request of a visitor, and the page that answers it. Templates read its
// exported fields.
type request struct {
	*Console
	*http.Request
	w http.ResponseWriter

	Title    string
	Section  string
	Root     string   // relative path of the console, which a proxy may serve below a prefix
	Home     string   // relative path of the visitor's pages
	Visitor  *visitor // nil if the request is refused
	Counters report.Counters
	Now      time.Time
	Stale    string // why the page may be outdated
	Query    string // the visitor's filter
	Page     any
	Model    *readModel // nil before lockModel
	part     string     // of the page, if only a part of it is drawn
}

// serve answers a request with a page that fill fills in.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, template, section string, fill func(*request) error) {
	v, err := c.auth.admit(r)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	c.noteRequest()
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	l := newPage(r, r.PathValue("visit"), c.now())
	l.Console, l.w = c, w
	l.Section = section
	l.Visitor = v
	l.Counters = c.bus.Counters()
	l.Query = strings.TrimSpace(r.FormValue("q"))
	defer l.releaseModel() // even if the page panics
	if trouble := c.model.readError.Load(); trouble != nil {
		l.Stale = *trouble
	} else if s := l.Counters.Log; s != nil && s.Failing {
		l.Stale = "the activity log is not being written: " + s.LastError
	}
	switch err := fill(l); {
	case err != nil:
		l.releaseModel()
		c.refuse(w, r, err)
	case template == "":
		l.releaseModel()
		writeJSON(w, http.StatusOK, l.Page)
	default:
		c.answer(w, http.StatusOK, template, l)
	}
}

// newPage returns a request for a page of a visit.
func newPage(r *http.Request, visit string, now time.Time) *request {
	l := &request{Request: r, Root: root(r), Now: now}
	l.Home = l.Root + strings.TrimPrefix(home(visit), home(""))
	return l
}

// root returns the relative path from the page of a request to the console.
func root(r *http.Request) string {
	if n := strings.Count(strings.TrimPrefix(r.URL.EscapedPath(), home("")), "/"); n > 0 {
		return strings.Repeat("../", n)
	}
	return "./"
}

// redirect sends a browser to a relative path. http.Redirect would make it absolute, and lose a
// prefix that a proxy has removed.
func redirect(w http.ResponseWriter, path string) {
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

// lockModel returns the model when it is current, or after a short wait. The model does not
// change until releaseModel.
func (r *request) lockModel() *readModel {
	r.waitForRows(r.Context())
	r.Model = r.model
	r.Model.mu.RLock()
	return r.Model
}

// releaseModel allows changes of the model again.
func (r *request) releaseModel() {
	if f := r.Model; f != nil {
		r.Model = nil
		f.mu.RUnlock()
	}
}

// matches reports whether the texts contain the visitor's filter.
func (r *request) matches(words ...string) bool {
	return r.Query == "" || strings.Contains(strings.ToLower(strings.Join(words, " ")), strings.ToLower(r.Query))
}

// answer renders and sends a page, or the requested part of it.
func (c *Console) answer(w http.ResponseWriter, status int, name string, l *request) {
	var b bytes.Buffer
	err := c.pages[name].ExecuteTemplate(&b, cmp.Or(l.part, "layout"), l)
	l.releaseModel()
	if err != nil {
		c.logger.Error().Err(err).Str("page", name).Msg("console page not rendered")
		http.Error(w, "this page cannot be rendered; see the log of the bus", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(escapeBidi(b.Bytes())) //nolint:errcheck // the client went away
}

// escapeBidi escapes the characters of a page that change the direction of text.
func escapeBidi(page []byte) []byte {
	if !bytes.ContainsFunc(page, isBidiControl) {
		return page
	}
	var b bytes.Buffer
	for _, r := range string(page) {
		if isBidiControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.Bytes()
}

func isBidiControl(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }

// refuse answers with the reason why a page is not shown. Programs get JSON.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, err error) {
	status := http.StatusServiceUnavailable
	if e, ok := errors.AsType[*refusal](err); ok {
		status = e.status
	}
	accept := r.Header.Get("Accept")
	switch status {
	case http.StatusSeeOther:
		redirect(w, err.Error())
		return
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="hubbub"`)
	}
	if strings.HasSuffix(r.URL.Path, ".json") || strings.HasSuffix(r.URL.Path, "/link") ||
		!strings.Contains(accept, "text/html") && accept != "" && accept != "*/*" {
		writeJSON(w, status, map[string]string{"error": err.Error()})
		return
	}
	page := newPage(r, r.PathValue("visit"), c.now())
	page.Title, page.Page = http.StatusText(status), err.Error()
	c.answer(w, status, "refused", page)
}

// notFound returns a refusal with StatusNotFound.
func notFound(format string, args ...any) error {
	return &refusal{http.StatusNotFound, fmt.Sprintf(format, args...)}
}

func (r *request) notFound() error {
	page := strings.TrimPrefix(r.URL.Path, home(r.PathValue("visit")))
	return notFound("the console has no page %s", text.Clip(page, 100))
}

var functions = template.FuncMap{
	"minute":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"day":        func(t time.Time) string { return t.UTC().Format(time.DateOnly) },
	"moment":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") },
	"ago":        ago,
	"span":       view.Long,
	"relative":   relativeTime,
	"count":      view.Count,
	"perMin":     perMinute,
	"pretty":     pretty,
	"clip":       func(n int, s string) string { return text.Clip(s, n) },
	"link":       link,
	"role":       plain(roleClass),
	"tone":       plain(tone),
	"short":      shortID,
	"many":       view.Many,
	"sentence":   func(s string) string { return strings.ToUpper(s[:min(1, len(s))]) + s[min(1, len(s)):] },
	"plus":       func(a, b int) int { return a + b },
	"known":      func(t time.Time) bool { return !t.IsZero() },
	"identity":   plain(identityLink),
	"reason":     reasonWords,
	"plainly":    plain(wordsFor),
	"boundName":  boundName,
	"boundValue": boundValue,
	"millis":     millis,
	"types":      view.TypeNames,
	"events":     view.EventNames,
	"statuses":   func() []string { return view.Statuses },
	"brief":      brief,
	"detail":     func(e activitylog.Entry) string { return cmp.Or(recordWords(e.Type, e.Payload), brief(e)) },
}

// nameOf returns the name of an agent, the title of a chat, or else the identity.
func nameOf(titles *view.Titles, id string) string {
	return cmp.Or(agentName(id), titles.Title(id), id)
}

// agentName returns the name of an agent, or "" for other identities and for the spawner.
func agentName(id string) string {
	name, ok := strings.CutPrefix(id, "agent:")
	if !ok || id == "agent:system" {
		return ""
	}
	return name
}

// personOrAgent returns a readable name for a name in the broker's records, which is a chat's
// number for a person.
func personOrAgent(titles *view.Titles, name string) string {
	return cmp.Or(titles.Title("tg:"+name), titles.Title("mx:"+name), nameOf(titles, name))
}

// plain adapts a function of strings for templates, which call it with values of any type.
func plain(f func(string) string) func(any) string {
	return func(v any) string { return f(fmt.Sprint(v)) }
}

// link returns an address within the console, relative to the pages of a visitor.
func link(page string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return "./" + page
	}
	return "./" + page + "?" + q.Encode()
}

// identityLink returns the link to the page of an identity.
func identityLink(id string) string {
	switch {
	case isChat(id):
		return link("chat", "id", id)
	case strings.HasPrefix(id, "agent:") && id != "agent:system":
		return link("agent", "id", id)
	default:
		return link("peer", "id", id)
	}
}

// roleClass returns the CSS class that colours an identity.
func roleClass(id string) string {
	family, _, _ := strings.Cut(id, ":")
	switch {
	case id == "agent:system", family == "system":
		return "role-system"
	case family == "tg", family == "mx", family == "chorus", family == "agent", family == "collab", family == "cli":
		return "role-" + family
	}
	return "role-other"
}

// tone returns the CSS class that colours a status.
func tone(status string) string {
	switch status {
	case "ok", "delivered", "done", "responded", "acknowledged", "completed", "accepted",
		"finished", "answered", "online", "talking", "spawned", "allowed":
		return "good"
	case "error", "failed", "timeout", "offline", "overflow", "rejected", "dead", "cancelled",
		"interrupted", "blocked", "unavailable", "missed", "denied", "expired", "revoked":
		return "bad"
	case "partial", "no_subscriber", "unknown", "deferred", "notify", "waiting", "review",
		"contended", "pending", "silent", "queued":
		return "warn"
	case "started", "claimed", "granted", "working", "running", "waking", "immediate",
		"buffered", "must_respond", "held", "open":
		return "live"
	}
	return "calm"
}

// clock formats the time of a row, and its date if that is not today's.
func clock(now, t time.Time) string {
	if t = t.UTC(); t.Format(time.DateOnly) != now.UTC().Format(time.DateOnly) {
		return t.Format(time.DateTime)
	}
	return t.Format("15:04:05.000")
}

func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return ""
	case d < time.Second:
		return "now"
	default:
		return view.Ago(d, " ") + " ago"
	}
}

// relativeTime describes a broker time relative to now.
func relativeTime(now time.Time, at string) string {
	t := collab.ParseTime(at)
	if t.After(now) {
		return "in " + view.Ago(t.Sub(now), " ")
	}
	return ago(now, t)
}

// perMinute formats a rate.
func perMinute(v float64) string {
	switch {
	case v < 0.05:
		return "–"
	case v < 10:
		return fmt.Sprintf("%.1f/min", v)
	case v < 600:
		return fmt.Sprintf("%.0f/min", v)
	}
	return fmt.Sprintf("%s/s", view.Count(v/60))
}

// maxPretty bounds the part of a payload that is shown, in bytes.
const maxPretty = 64 << 10

// brief describes a row, with the codes of the protocol.
func brief(e activitylog.Entry) string { return text.Clip(view.Brief.Row(&e), maxText) }

// pretty indents JSON for people, and cuts it if it is too long.
func pretty(raw json.RawMessage) string {
	words := string(raw)
	var b bytes.Buffer
	if len(raw) <= maxPretty && json.Indent(&b, raw, "", "  ") == nil {
		words = b.String()
	}
	if len(words) > maxPretty {
		return text.Prefix(words, maxPretty) + fmt.Sprintf("\n… and %s bytes more", view.Count(len(words)-maxPretty))
	}
	return words
}

// shortID returns the end of a long id, which differs most between ids.
func shortID(id string) string {
	if len(id) <= 12 {
		return id
	}
	return "…" + strings.ToValidUTF8(id[len(id)-8:], "")
}

//go:embed assets
var assetFiles embed.FS

// versions returns the versions of the assets, by name. A version depends on the content.
var versions = sync.OnceValue(func() map[string]string {
	list := map[string]string{}
	err := fs.WalkDir(assetFiles, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := assetFiles.ReadFile(name)
		list[e.Name()] = fmt.Sprintf("%.6x", sha256.Sum256(b))
		return err
	})
	if err != nil {
		panic("the console's assets cannot be read: " + err.Error())
	}
	return list
})

// Asset returns the address of an asset. It changes with the content.
func (r *request) Asset(name string) string {
	return r.Root + "assets/" + name + "?v=" + versions()[name]
}

// serveAsset serves an asset, with or without a credential.
func serveAsset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	version, ok := versions()[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("ETag", `"`+version+`"`)
	h.Set("Cache-Control", "no-cache")
	if r.URL.Query().Get("v") == version {
		h.Set("Cache-Control", "max-age=31536000, immutable")
	}
	http.ServeFileFS(w, r, assetFiles, "assets/"+name)
}
