// Package fleet runs the programs of one system as child processes: it starts the bus
// first and then its peers, restarts them when they crash, stops them in the reverse
// order, and merges their logs.
//
// Guarantees:
//
//   - Start: the children of a stage start when every child of the stage before
//     has said "ready" in its log.
//   - Restart: a child that ends by itself starts again after a pause that
//     doubles from 500 ms to 30 s, and is 500 ms again after a minute of running.
//     A child that fails several times in a row is tried every 5 minutes; one of
//     the first stage stays down, and that ends Run. A child that was called
//     wrongly (exit 2) stays down in any stage. All of it is logged.
//   - Stop: when the context ends, the last stage gets SIGTERM first, and the
//     stage before it when every child has ended. A child that takes too long
//     is killed. Run returns when every child and goroutine has ended.
//   - Orphans: on Linux a child gets SIGTERM when this process is killed.
//   - Log: each line of a child goes to Options.Line, whole and in order. Lines
//     are cut at 64 KiB.
package fleet
