// Package fleet runs the programs of one system as child processes. It starts the bus first and
// then its peers, restarts them when they crash, stops them in reverse order, and merges their
// logs.
//
// Guarantees:
//
//   - Start: the children of a stage start when every child of the previous stage
//     has logged "ready".
//   - Restart: a child that ends starts again after a pause that doubles from
//     500 ms to 30 s. After a minute of running, the pause is 500 ms again.
//     A child that fails several times in a row is tried every 5 minutes. In the
//     first stage it stays down, and that ends Run. A child with exit 2 stays down in
//     any stage. All of this is logged.
//   - Stop: when the context ends, the last stage gets SIGTERM first, and the
//     previous stage when every child has ended. The stages share
//     Options.StopTimeout: each may use its equal part of the time that is left, so
//     the first stage gets all that the others leave. A child that takes too long is
//     killed, unless it has logged "stopping takes longer". Run returns when every
//     child and goroutine has ended.
//   - Orphans: on Linux a child gets SIGTERM when this process is killed.
//   - Log: each line of a child goes to Options.Line, whole and in order. Lines
//     are cut at 64 KiB.
package fleet
