// Package harnesstest provides what tests of harnesses share: tools that record their calls, a
// reference C2A program with faults on demand, and an ACP program. A test binary acts as these
// programs when it runs itself.
//
// Guarantees: everything that a test starts ends with the test. Only tests import this package.
package harnesstest
