package chorus

import "hubbub/peers/outbox"

// SchemaBefore is the database of the gateways before channels found their agents
// by peers/surface.
var SchemaBefore = []string{schema + outbox.Schema}
