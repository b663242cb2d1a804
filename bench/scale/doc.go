// Command scale measures how jobs of many ranks start and run on this machine, and predicts the time
// of a step on up to 1024 ranks:
//
//	go run ./bench/scale -ranks 2,4,8,16,32,64
//	go run ./bench/scale -hosts 4 -ranks 4,8,16
//	go run ./bench/scale -predict -latency 20us -bandwidth 10
//
// The first form measures jobs on one host, the second in network namespaces, a launcher in each:
// time and CPU time to the first step, messages to the store, and in the steady state processes,
// memory, descriptors and sockets. With -predict it also measures the constants of a model, in jobs of
// other sizes, prints the time of a step that the model predicts beside the measured one, and predicts
// worlds that do not fit on this machine for the given network: by what the TCP backend's cost model
// chooses, with -per-host ranks on each host, and by every algorithm.
//
// The job is a ConvNet on generated images, a small batch per rank. -json FILE writes everything.
//
// It imports bench/internal/pairs, bench/internal/selfrank, core/base, core/bench, core/job/launch, core/report/event,
// core/tensor and plugins/backend-tcp, whose cost model it uses. Start with main.go.
package main
