// Package segment reads and seals the files of an activity log: the active segment, which takes
// new rows, and the sealed files beside it, which are never written again.
//
// A [Source] is a log for its readers, a [Snapshot] is its files at one moment, and a [View] is
// one connection to one file. schema.sql documents the tables. [Seal] finishes a file: it adds
// lookup tables and a checksum. The hashes of a file's rows are kept after the file is removed.
package segment
