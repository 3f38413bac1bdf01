package chorus

import (
	"context"
	"net/http"
)

// inboxPath is where Chorus services POST; the connection string's secret
// follows it.
const inboxPath = "/inbox/"

// serveInbox takes one message of a Chorus service. 200 means that it is on
// disk; the work comes after.
func (g *Gateway) serveInbox(w http.ResponseWriter, r *http.Request) {
	if err := g.takePosted(w, r); err != nil {
		g.logCall(err, "inbox")
		writeRefusal(w, err)
		return
	}
	writeOK(w)
}

func (g *Gateway) takePosted(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "POST messages here")
	}
	// What is not a live secret ends here, whatever it is and whatever comes with it.
	inbox, ok, err := g.store.inboxOf(r.Context(), r.PathValue("secret"))
	if err != nil {
		return err
	}
	if !ok {
		return errNobody
	}
	leave, ok := g.calls.enter(inboxPath + string(inbox))
	if !ok {
		return errBusy
	}
	defer leave()
	body, err := readBody(w, r)
	if err != nil {
		return err
	}
	posted, err := ParsePosted(body, g.guard)
	if err != nil {
		return refuse(http.StatusBadRequest, err.Error())
	}
	in, err := g.inboundOf(inbox, posted)
	if err != nil {
		return err
	}
	// The caller may hang up now; what it sent is stored all the same.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), storeTimeout)
	defer cancel()
	if err := g.accept(ctx, in); err != nil {
		return err
	}
	g.surface.Wake()
	return nil
}
