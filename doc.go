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
// precision plugins may be Go values that implement the interfaces of core/sdk; they run in the process
// of the rank, as built-in plugins do here. Plugins that the configuration names by path run in
// processes of their own.
//
// # Ranks
//
// With launch.ranks = "processes", the default, every rank is this executable started again with the
// same arguments: main runs again up to its call of Run, which there runs the rank and does not return.
// A rank repeats what main does before that call, such as parsing flags, and shares no memory with the
// first process. Only the program's first call of Run can start processes. In Go tests, use [Threads].
//
// With launch.ranks = "threads", or the option [Threads], ranks are goroutines of this process. They
// compute the same bits as processes, can be debugged in one session, and see values that the program
// shares with them, such as counters. A panic in one of them ends the program.
//
// # Compatibility
//
// Within a major version, packages trainctl, trainctltest, custom, core/sdk and core/tensor change only by
// additions. CI compares it with the API of the last
// release. Keys of the configuration are documented in docs/configuration.md; a field of [Tables] is
// the key that its tag names.
//
// It imports core, internal/builtins and plugins/backend-tcp, and neither the command line nor package
// testing's helpers. Start with run.go; package trainctltest is for tests.
package trainctl
