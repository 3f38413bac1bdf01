package program_test

import (
	"context"
	"fmt"
	"os"

	"hubbub/cmd/internal/program"
)

// A main is its own settings and its own Run. This one says its greeting and ends.
func Example() {
	os.Args = []string{"hubbub-hello", "--name", "world", "--data", "/var/lib/hubbub"}
	main := func() {
		var settings struct {
			Name string `flag:"name" default:"nobody" usage:"whom to greet"`
		}
		hello := program.Program{
			Name:     "hubbub-hello",
			Summary:  "greets somebody",
			Settings: []any{&settings},
			Run: func(ctx context.Context, env *program.Env) error {
				fmt.Println("hello,", settings.Name)
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
