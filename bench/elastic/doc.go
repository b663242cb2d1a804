// Command elastic measures what jobs whose ranks change, or are of different speed, gain and cost on this
// machine:
//
//	go run ./bench/elastic                                # steady and shares
//	go run ./bench/elastic -only heal -python PYTHON      # beside torchrun of that Python
//	go run ./bench/elastic -only copy -link 1             # needs root, and tc of iproute2
//
//	steady  a step of two ranks with launch.elastic by one without, with the 95 % confidence interval of the
//	        ratio; beside it that of two jobs without, which shows what the measurement itself says of nothing
//	shares  steps per second of two ranks, of which one shares its core with another process, with even
//	        shares and with launch.shares = "auto", in turn
//	heal    seconds from the kill of one of three nodes to the next step of the others, and completed
//	        steps that are repeated; beside it torchrun with --nnodes 1:4 and a c10d rendezvous
//	copy    how much of a slow link ResNet-50's state uses on its way to a node that joins
//
// All but the last train a ConvNet on generated images. -json FILE writes everything.
//
// It imports bench/internal/pairs, core/bench and core/report/event. Start with main.go.
package main
