// Command hubbub is the command line: it runs the whole system, shows what
// happens in it, and speaks on the bus.
package main

import (
	"context"
	"os"

	"hubbub/cmd/internal/program"
)

func main() {
	os.Exit(program.Attach(newRoot()).Execute(context.Background()))
}
