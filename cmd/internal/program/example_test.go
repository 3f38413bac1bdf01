package program_test

import (
	"context"
	"fmt"
	"os"

	"hubbub/cmd/internal/program"

	"github.com/spf13/pflag"
)

// A main is its own flags and its own Run. This one says its greeting and ends.
func Example() {
	os.Args = []string{"hubbub-hello", "--name", "world", "--data", "/var/lib/hubbub"}
	main := func() {
		var name string
		hello := program.Program{
			Name:    "hubbub-hello",
			Summary: "greets somebody",
			Flags: func(fs *pflag.FlagSet) {
				fs.StringVar(&name, "name", "nobody", "whom to greet")
			},
			Run: func(ctx context.Context, env *program.Env) error {
				fmt.Println("hello,", name)
				return nil
			},
		}
		if program.Run(hello) == 0 {
			fmt.Println("and goodbye")
		}
	}
	main()
	// Output:
	// hello, world
	// and goodbye
}
