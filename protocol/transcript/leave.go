package transcript

import (
	"context"
	"encoding/json"

	"hubbub/protocol"
)

// Disconnect makes sure that no connection of this case receives messages of a later case at the
// same bus, which may notice the end of a connection late. A new connection without subscriptions
// takes over each identity. Errors are ignored: if the bus is at fault, the cases show it.
func (c *Case) Disconnect(ctx context.Context, dial Dialer) {
	for _, hello := range c.initializeFrames() {
		conn, err := dial(ctx)
		if err != nil {
			return
		}
		if conn.Send([]byte(hello), false) == nil {
			next(ctx, conn) //nolint:errcheck // see above
		}
		conn.Close()
	}
}

// initializeFrames returns the initialize requests of the case.
func (c *Case) initializeFrames() []string {
	var list []string
	for _, s := range c.steps {
		if s.verb != "send" {
			continue
		}
		for _, line := range s.lines {
			var m struct {
				ID     any
				Method string
			}
			if json.Unmarshal([]byte(line), &m) == nil && m.Method == protocol.MethodInitialize && m.ID != nil {
				list = append(list, line)
			}
		}
	}
	return list
}
