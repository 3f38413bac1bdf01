package c2a

// Pending counts the deliveries that are not accepted.
func Pending(h *Harness) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pending)
}
