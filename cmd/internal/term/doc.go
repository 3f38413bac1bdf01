// Package term prepares text for a terminal: it removes control characters, wraps and pads lines,
// and adds colours if the terminal shows them.
package term
