// Package rank answers two questions for a process of a job: who am I, and
// where are the others.
//
// Who am I: FromEnv reads the environment that the starter of the job left
// (trainctl's own launcher, torchrun, SLURM, Open MPI, MPICH, Horovod) and
// returns a World. The sets are tried in that order and the first complete one
// wins; Explain shows them all.
//
// Where are the others: Join connects the process to the job's Store, a small
// key-value service over TCP that one process of the job hosts. Ranks
// exchange what they need to find each other through it (Exchange), wait for
// each other (Barrier), and learn who is missing when somebody is
// (TimeoutError) or dead (PeerLeftError). No tensor ever passes through it.
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
// Every connection to a store is under TLS 1.3, and both ends prove with a key
// derived from the job's secret that they belong to the job, before either says
// anything of it: who does not know the secret learns neither the job's name nor
// its configuration, and cannot change them on the way. SecretOf says where a rank
// has the secret from. What a stranger can hold open is bounded (hostnet.Limiter).
//
// It imports core/base and core/job/secret. Start with env.go for who a process
// is, join.go for the store.
package rank
