// Package harnesstest has what tests of harnesses share: tools that record
// their calls and answer as told, a reference C2A program with faults on demand
// and an ACP program, which a test binary plays when it is run again.
//
// Guarantees: nothing is started but what a test asks for, and that ends with
// the test. The package is imported by tests alone.
package harnesstest
