package rules

import (
	"time"

	"hubbub/protocol/collab"
)

// CurrentDelivery returns a delivery at a time, without an expired lease.
func CurrentDelivery(d *collab.Delivery, now time.Time) collab.Delivery {
	c := *d
	if c.Status == collab.DeliveryLeased && !now.Before(collab.ParseTime(c.LeaseUntil)) {
		c.Status, c.LeasedBy, c.LeaseUntil = collab.DeliveryPending, "", ""
	}
	return c
}

// WithStatus returns a delivery with a new status and without a lease.
func WithStatus(d collab.Delivery, status collab.DeliveryStatus) collab.Delivery {
	d.Status, d.LeasedBy, d.LeaseUntil = status, "", ""
	return d
}

// IsRemindableRecord reports whether a sweep may send reminders about a record: it is open, and
// not being worked on.
func IsRemindableRecord(r *Record) bool { return !r.Terminal() && r.State != collab.WorkWorking }

// IsRemindable reports whether a sweep may send reminders about a delivery: its message requires
// an acknowledgement and has none.
func IsRemindable(d collab.Delivery) bool {
	return d.MessageID != "" && d.Policy == collab.PolicyMustAck && d.Status == collab.DeliveryPending && d.Wake != ""
}
