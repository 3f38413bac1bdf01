package main

// headroom makes the garbage collector wait for 16 MiB of garbage more. The heap
// of a bus is small, and its messages are garbage soon: without this a busy one
// collects dozens of times a second, for a fifth of its processor time. Nobody
// touches these bytes, so that they cost addresses and no memory. A larger
// GOGC would do the same, but let a large heap grow in proportion.
func headroom() []byte { return make([]byte, 16<<20) }
