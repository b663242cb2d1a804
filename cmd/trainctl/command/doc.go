// Package command makes a program of yours serve the commands of trainctl, so that run, plan, eval, predict, generate,
// sweep and all others know the definitions and plugins of the program:
//
//	func main() {
//		if err := custom.Register(swish, focal); err != nil {
//			log.Fatal(err)
//		}
//		command.Main()
//	}
//
// It imports core, internal/builtins and cmd/trainctl/internal. Start with command.go. The compatibility promise of package trainctl holds for it.
package command
