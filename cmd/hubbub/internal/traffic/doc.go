// Package traffic has the commands that send, watch and measure messages on a running bus: pub, sub, ping,
// peers, top and console.
package traffic
