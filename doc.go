// Package trainctl trains models from Go programs and tests as the command trainctl does from the
// command line.
//
//	r, err := trainctl.Run(ctx, trainctl.File("configs/mnist-ddp.toml"), trainctl.Ranks(2), trainctl.Threads())
//	if err != nil {
//		log.Fatal(err)
//	}
//	fmt.Println(r.Summary.Train.Loss, len(r.Weights))
//
// A [Config] is a TOML file, TOML text, or the same tables as Go values. Backends, data sets and
// precision plugins may be Go values with the interfaces of core/sdk; they run in the process of the
// rank, as built-in plugins do here. Plugins that the configuration names by a path run in their own
// processes as always.
//
// # Ranks
//
// With launch.ranks = "processes", the default, every rank is this executable started again with the
// same arguments: main runs again up to its call of Run, which there runs the rank and does not return.
// A rank sees everything that main did before that call, such as flags, and nothing of what the first
// process knows besides. Run must then be the first Run of the program. In Go tests, use [Threads].
//
// With launch.ranks = "threads", or the option [Threads], ranks are goroutines of this process. They
// compute the same bits as processes, can be debugged in one session, and see values that the program
// shares with them, such as counters. A panic in one of them ends the program.
//
// # Compatibility
//
// What packages trainctl and trainctltest export, and core/sdk and core/tensor where these packages
// use them, changes only by additions within a major version. CI compares it with the API of the last
// release. Keys of the configuration are documented in docs/configuration.md; a field of [Tables] is
// the key that its tag names.
//
// It imports core, internal/builtins and plugins/backend-tcp, and neither the command line nor package
// testing's helpers. Start with run.go; package trainctltest is for tests.
package trainctl
