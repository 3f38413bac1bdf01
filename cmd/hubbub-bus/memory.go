package main

// headroom makes the garbage collector wait for 16 MiB more garbage. The heap of a bus is small,
// and its messages soon become garbage. Without headroom, a busy bus collects dozens of times a
// second, which takes a fifth of its processor time. The bytes are never used, so they cost
// address space but no memory. A larger GOGC would have the same effect, but let a large heap
// grow in proportion.
func headroom() []byte { return make([]byte, 16<<20) }
