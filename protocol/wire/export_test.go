package wire

// Failed reports whether the stream has ended by a failed write.
func (s *WebSocket) Failed() bool { return s.net.failure() != nil }
