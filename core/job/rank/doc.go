// Package rank tells a process which rank of its job it is, and connects it to
// the other ranks.
//
// FromEnv reads the environment variables set by whatever started the job
// (trainctl's own launcher, torchrun, Open MPI, MPICH, SLURM, Horovod) and
// returns a World. The sets are tried in that order and the first complete one
// wins; Explain lists them all.
//
// Join connects the process to the job's Store, a small key-value service over
// TCP that one process of the job hosts. Through it, ranks exchange addresses and
// other data (Exchange), wait for each other (Barrier), and learn which rank is
// missing (TimeoutError) or dead (PeerLeftError). It never carries tensors.
//
// A process that uses this package, in order:
//
//	w, err := rank.FromEnv(os.LookupEnv)
//	store, err := rank.Join(ctx, w, rank.JoinOptions{})
//	defer store.Close()
//	all, err := rank.Exchange(ctx, store, "endpoints", w.Rank, w.Size, mine)
//
// # Trust
//
// Every connection to a store uses TLS 1.3. Both ends prove with a key derived
// from the job's secret that they belong to the job before they send anything
// else, so a process without the secret learns neither the job's name nor its
// configuration and cannot modify them. SecretOf says where a rank gets the secret
// from. hostnet.Limiter bounds the number of unauthenticated connections.
//
// It imports core/base and core/job/secret. Start with env.go for the rank of a
// process, join.go for the store.
package rank
