package sdk

import (
	"context"
	"time"

	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/contract"
	"github.com/trainctl/trainctl/core/tensor"
)

// Backend is one rank's end of a process group: it moves and reduces memory
// between the ranks of a job.
//
// Order of calls: Open, Attach for every arena, Listen, Connect, then Do in
// the same order on every rank, Close.
type Backend interface {
	Info() Info

	// Open checks the options and takes the group. It starts nothing that
	// could block on other ranks.
	Open(ctx context.Context, group Group, options Options) error

	// Attach makes an arena known. Collectives name memory inside attached
	// arenas only. The arena stays valid until Close returns. An arena with
	// Device lies on a GPU, see [DeviceMemory]; Attach sets its Done. When it
	// returns an error the instance is as before, and the core may try another
	// kind of handle or go on with host memory.
	Attach(ctx context.Context, arena *Arena) error

	// Listen prepares to be connected to and returns opaque bytes (an address
	// and whatever else peers need). The core hands them to every rank.
	Listen(ctx context.Context) (endpoint []byte, err error)

	// Connect joins the group; endpoints[r] came from rank r's Listen. It
	// returns when this rank can take part in collectives, or an error that
	// names the ranks that could not be reached.
	Connect(ctx context.Context, endpoints [][]byte) error

	// Do runs one collective to its end. All ranks make the same sequence of
	// calls; c.Seq, Op, DType, Count and Bucket let a backend refuse a
	// mismatch by name before data moves. The context carries the operation's
	// deadline: past it, return a *StallError naming who did not arrive.
	// After an error the group is unusable and only Close may follow. c and
	// ctx are valid until Do returns.
	Do(ctx context.Context, c *Collective) error

	// Close ends the instance. It does not wait for other ranks.
	Close() error
}

// Group says who takes part.
type Group struct {
	JobID      string
	Secret     []byte // known to all ranks of the job alone; prove it to peers before anything else is parsed
	Generation int    // counts restarts of the ranks; peers of another generation are refused
	Epoch      int    // counts the groups of one generation: a rank whose plugin died starts another and all join anew; peers of another epoch are refused
	Rank       int
	WorldSize  int
	LocalRank  int
	LocalSize  int
	Timeout    time.Duration // for one collective
	// MasterAddr is the host that every rank can reach rank 0 by, so that a
	// backend can find the interface to listen on.
	MasterAddr string
	// Device is the GPU that the rank computes on: its UUID as "GPU-…" or, of a
	// slice, "MIG-…". "" where it computes on none; a backend for GPUs then takes
	// one by LocalRank.
	Device string
	// InProcess says that the backend runs in the rank's process; see [Placer].
	InProcess bool
	// Channels is how many channels collectives may name, on all ranks alike; 0 is 1.
	Channels int
}

// Arena is memory that the rank owns and the plugin maps: of the host, or with
// Device of a GPU, and then the embedded one is nil and there are no Bytes.
type Arena struct {
	ID   uint32
	Name string // "gradients", "batches": for messages
	*shm.Arena
	Device *DeviceMemory
}

// Op is a collective operation.
type Op = contract.Op

// The collective operations. n = Count elements, W = world size.
const (
	OpNone          = contract.OpNone
	OpAllReduce     = contract.OpAllReduce     // Buf holds n; every rank ends with the reduction over ranks in fixed rank order
	OpBroadcast     = contract.OpBroadcast     // Buf holds n; every rank ends with Root's
	OpAllGather     = contract.OpAllGather     // Buf holds W·n; rank r's part lies at r·n before, all parts after
	OpReduceScatter = contract.OpReduceScatter // Buf holds W·n; rank r's part at r·n ends reduced, the others are unspecified
	OpBarrier       = contract.OpBarrier       // no memory; returns when all ranks have called
	OpSend          = contract.OpSend          // Buf holds n, for rank Root
	OpRecv          = contract.OpRecv          // Buf receives n from rank Root
	OpReduce        = contract.OpReduce        // Buf holds n; Root ends with the reduction, the others' are unspecified
)

// ReduceOp combines elements of several ranks.
type ReduceOp = contract.ReduceOp

// The reductions. Half types are accumulated in float32 and rounded once; Avg
// is Sum divided by the world size and for float types only. NaN propagates
// through Min and Max.
const (
	Sum  = contract.Sum
	Avg  = contract.Avg
	Min  = contract.Min
	Max  = contract.Max
	Prod = contract.Prod
)

// Collective is one call. Memory is in place: results appear in Buf.
type Collective struct {
	Seq    uint64 // 1, 2, 3, … equal on all ranks
	Op     Op
	Reduce ReduceOp
	DType  tensor.DType
	Count  int // elements, see Op
	Root   int // Broadcast: source; Send, Recv: the other rank
	Bucket int // gradient bucket, -1 for none: for messages

	// Channel is what the call is for: ChannelJob, or ChannelStatistics for
	// what layers exchange in the middle of a pass. It is below Group.Channels.
	// Calls of all channels stand in one sequence, equal on all ranks. A backend may
	// give each resources of its own, so that a small call need not queue behind a
	// bucket; one that knows no channels treats all alike.
	Channel int

	// Arena, Offset: where Buf lies, equal on all ranks (except Send and
	// Recv), so a backend may work on a local peer's mapping of the same
	// arena. With the inline data plane Arena is nil and Buf a private copy
	// that travels back after Do.
	Arena  *Arena
	Offset int
	Buf    []byte // nil in an arena on a GPU

	// Ready and Done are the numbers of the events that order a call in an
	// arena on a GPU, 0 for none; see [DeviceMemory].
	Ready, Done int
}

// The channels that the core uses.
const (
	ChannelJob        = 0 // buckets, broadcasts, totals
	ChannelStatistics = 1 // SyncBatchNorm
)

// MaxChannels bounds Group.Channels.
const MaxChannels = 8

// StallError is what Do returns when its deadline passes.
type StallError struct {
	Seq     uint64
	Op      Op
	Bucket  int
	Missing []int         // ranks that did not arrive, ascending; none where all have, and it did not end
	Waited  time.Duration // since this rank entered; 0: not measured
}

// MismatchError is what Do returns when ranks called different collectives.
type MismatchError struct {
	Rank, Peer int
	Mine, Its  string // both calls in words: "#12 all_reduce f32[4096] sum, bucket 1"
}

// PeerError says that another rank is gone or misbehaved.
type PeerError struct {
	Peer  int
	Seq   uint64
	Cause string
}
