package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"hubbub/activitylog"
	"hubbub/activitylog/view"
	"hubbub/protocol/text"
)

//go:embed templates/*.html
var templateFiles embed.FS

// pages are the templates by name, each with the layout around it.
var pages = parsePages()

func parsePages() map[string]*template.Template {
	list := map[string]*template.Template{}
	shared := template.Must(template.New("layout").Funcs(functions).ParseFS(templateFiles, "templates/layout.html", "templates/parts.html"))
	names := []string{"topology", "activity", "message", "agents", "agent", "chat", "peer", "work", "item", "health", "refused", "enter"}
	for _, name := range names {
		list[name] = template.Must(template.Must(shared.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return list
}

// A frame is what every page has.
type frame struct {
	Title   string
	Section string
	Visitor *visitor
	Bus     string
	Version string
	Now     time.Time
	Trouble string // why what is shown may be old
	Page    any
}

func (c *Console) frame(v *visitor, section, title string, page any) *frame {
	counters := c.bus.Counters()
	f := &frame{Title: title, Section: section, Visitor: v, Bus: counters.Name, Version: counters.Version, Now: c.now(), Page: page}
	if trouble := c.facts.trouble.Load(); trouble != nil {
		f.Trouble = *trouble
	}
	if s := counters.Log; f.Trouble == "" && s != nil && s.Failing {
		f.Trouble = "the activity log is not being written: " + s.LastError
	}
	return f
}

// show renders a whole page.
func (c *Console) show(w http.ResponseWriter, v *visitor, name, title string, page any) {
	section := name
	switch name {
	case "message":
		section = "activity"
	case "agent", "chat":
		section = "agents"
	case "peer":
		section = "topology"
	case "item":
		section = "work"
	}
	c.render(w, http.StatusOK, name, c.frame(v, section, title, page))
}

// render writes a page, or an error.
func (c *Console) render(w http.ResponseWriter, status int, name string, data any) {
	c.execute(w, status, name, "layout", data)
}

// part renders a piece of a page.
func (c *Console) part(w http.ResponseWriter, page, part string, data any) {
	c.execute(w, http.StatusOK, page, part, data)
}

func (c *Console) execute(w http.ResponseWriter, status int, page, part string, data any) {
	var b bytes.Buffer
	if err := pages[page].ExecuteTemplate(&b, part, data); err != nil {
		c.logger.Error().Err(err).Str("page", page).Msg("console page not drawn")
		http.Error(w, "this page cannot be drawn; the log of the bus says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	w.Write(b.Bytes()) //nolint:errcheck // the client went away
}

// refuse answers why a page is not shown; programs get JSON.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, status int, err error) {
	accept := r.Header.Get("Accept")
	if strings.HasSuffix(r.URL.Path, ".json") || !strings.Contains(accept, "text/html") && accept != "" && accept != "*/*" {
		writeJSON(w, status, map[string]string{"error": err.Error()})
		return
	}
	c.render(w, status, "refused", &frame{Title: http.StatusText(status), Now: c.now(), Page: err.Error()})
}

func (c *Console) nothing(w http.ResponseWriter, r *http.Request, _ *visitor) {
	c.refuse(w, r, http.StatusNotFound, fmt.Errorf("the console has no page %s", text.Clip(r.URL.Path, 200)))
}

// broken answers that the log cannot be read.
func (c *Console) broken(w http.ResponseWriter, r *http.Request, err error) {
	c.refuse(w, r, http.StatusServiceUnavailable, fmt.Errorf("the activity log cannot be read now: %w", err))
}

var functions = template.FuncMap{
	"asset":      assetPath,
	"clock":      func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"moment":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") },
	"ago":        ago,
	"span":       view.Long,
	"count":      view.Count,
	"perMin":     perMinute,
	"pretty":     pretty,
	"clip":       func(n int, s string) string { return text.Clip(s, n) },
	"link":       link,
	"role":       plain(roleClass),
	"tone":       plain(tone),
	"short":      shortID,
	"many":       view.Many,
	"plus":       func(a, b int) int { return a + b },
	"known":      func(t time.Time) bool { return !t.IsZero() },
	"identity":   plain(identityLink),
	"words":      activitylog.ReasonInWords,
	"boundName":  boundName,
	"boundValue": boundValue,
}

// plain makes a function of a page take texts of any type.
func plain(f func(string) string) func(any) string {
	return func(v any) string { return f(fmt.Sprint(v)) }
}

// link makes an address inside of the console.
func link(page string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	if len(q) == 0 {
		return "/console/" + page
	}
	return "/console/" + page + "?" + q.Encode()
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
	case family == "tg", family == "chorus", family == "agent", family == "collab", family == "cli":
		return "role-" + family
	}
	return "role-other"
}

// tone returns the CSS class that colours a status.
func tone(status string) string {
	switch status {
	case "ok", "delivered", "done", "responded", "acknowledged", "completed", "accepted", "finished", "answered", "online", "talking", "spawned":
		return "good"
	case "error", "failed", "timeout", "offline", "overflow", "rejected", "dead", "cancelled", "interrupted", "blocked", "unavailable":
		return "bad"
	case "partial", "no_subscriber", "unknown", "deferred", "notify", "waiting", "review", "contended", "pending", "silent", "queued":
		return "warn"
	case "started", "claimed", "granted", "working", "running", "waking", "immediate", "buffered", "must_respond", "held", "open":
		return "live"
	}
	return "calm"
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

// perMinute writes how often something happens.
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

// maxPretty is how much of a payload is shown, in bytes.
const maxPretty = 64 << 10

// pretty indents JSON for people, and cuts what is too long.
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

// shortID returns the end of a long id, which differs most.
func shortID(id string) string {
	if len(id) <= 12 {
		return id
	}
	return "…" + strings.ToValidUTF8(id[len(id)-8:], "")
}
