package chorus

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"hubbub/peers/outbox"
	"hubbub/peers/peer"
	"hubbub/protocol"
)

// The queues of the gateway, by their names in the outbox table.
const (
	busQueue      = "bus"      // messages to the bus; destination: sender and topic
	callbackQueue = "callback" // events to a service's callbacks; destination: the channel
	postQueue     = "post"     // deliveries to external agents; destination: agent and channel
)

// An outgoing message, as it waits for the bus.
type outgoing struct {
	Topic   protocol.Topic   `json:"topic"`
	Message protocol.Message `json:"message"`
}

// enqueueBus stores a message to the bus in the caller's transaction. Messages
// of one sender to one topic keep their order; one key is sent once.
func (g *Gateway) enqueueBus(ctx context.Context, tx *sql.Tx, topic protocol.Topic, key string, m protocol.Message) error {
	raw, err := json.Marshal(outgoing{topic, m})
	if err != nil {
		return fmt.Errorf("writing a message: %w", err)
	}
	if _, err = g.toBus.EnqueueTx(ctx, tx, string(m.From)+" "+string(topic), key, raw); err != nil {
		return fmt.Errorf("storing a message to %s: %w", topic, err)
	}
	return nil
}

// sendToBus makes one attempt at a stored message.
func (g *Gateway) sendToBus(ctx context.Context, item outbox.Item) error {
	var out outgoing
	if err := json.Unmarshal(item.Body, &out); err != nil {
		return outbox.Permanent(err)
	}
	err := g.bus.Tell(ctx, out.Topic, item.Attempt, out.Message)
	r := peer.ReceptionOf(err)
	if r != peer.Received && r != peer.Unsent && outbox.Open(err) && out.Message.Type == protocol.TypeDeliveryStatus && item.Attempt >= statusAttempts {
		return outbox.Permanent(err)
	}
	return err
}

// sendTimeout bounds one attempt; it is longer than the bus waits for a peer.
const sendTimeout = 45 * time.Second

// statusAttempts is how often a delivery_status is sent to an agent that is not
// there: about a minute.
const statusAttempts = 8
