package ddp

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/trainctl/trainctl/core/tensor"
)

// Replica is what must be equal on every rank before training may start.
// Ranks exchange it through the rendezvous store, because a collective over
// different models could only hang or corrupt.
type Replica struct {
	Build   string        `json:"build"`   // of the trainctl binary, for the message
	Config  []string      `json:"config"`  // settings that ranks must share, as "key = value" in an order that all have
	Dataset string        `json:"dataset"` // fingerprint, sizes and source
	Policy  string        `json:"policy"`  // what the precision plugin answered
	Device  string        `json:"device"`  // "cpu" or "cuda"
	GPU     GPU           `json:"gpu"`     // zero on a CPU
	State   []ReplicaItem `json:"state"`   // parameters and buffers in state-dict order
}

// GPU is the one that a rank computes on.
type GPU struct {
	UUID string `json:"uuid"` // the same in every process and on every host
	Name string `json:"name"` // "NVIDIA H100 80GB HBM3"
}

// ReplicaItem is one parameter or buffer.
type ReplicaItem struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Shape []int  `json:"shape"`
}

// Item describes a tensor of the state dict.
func Item(name string, s tensor.Spec) ReplicaItem {
	return ReplicaItem{Name: name, DType: s.DType.String(), Shape: s.Shape}
}

func (i ReplicaItem) String() string {
	return fmt.Sprintf("%s %s%v", i.Name, i.DType, tensor.Shape(i.Shape))
}

func (i ReplicaItem) same(o ReplicaItem) bool {
	return i.Name == o.Name && i.DType == o.DType && tensor.Shape(i.Shape).Equal(o.Shape)
}

// Encode is the form that ranks exchange.
func (r Replica) Encode() []byte {
	b, err := json.Marshal(r)
	if err != nil {
		panic("ddp: " + err.Error())
	}
	return b
}

// DisagreementError reports how ranks differ that must be equal. Ranks were started
// with different inputs, so a restart does not help.
type DisagreementError struct{ Detail string }

func (e *DisagreementError) Error() string { return e.Detail }

// ExitCode is trainctl's for a wrong configuration.
func (e *DisagreementError) ExitCode() int { return 2 }

func disagree(format string, args ...any) error {
	return &DisagreementError{Detail: fmt.Sprintf(format, args...)}
}

// replicaBrief is what ranks exchange first. Its size does not depend on the model, so that
// many ranks do not each read the descriptions of all.
type replicaBrief struct {
	Digest string `json:"digest"`
	GPU    GPU    `json:"gpu"`
}

func (r Replica) brief() replicaBrief {
	b := replicaBrief{GPU: r.GPU}
	r.Build, r.GPU = "", GPU{} // these may differ
	b.Digest = fmt.Sprintf("%x", sha256.Sum256(r.Encode()))
	return b
}

// Agree compares the replicas of all ranks, which call it together: their digests, and all of what
// they hold if those differ. gather exchanges bytes between all ranks under a name. The error of
// ranks that differ is a *DisagreementError, the same on all of them. Two ranks on one GPU are an
// error unless devices may be shared.
func Agree(own Replica, shared bool, gather func(name string, mine []byte) ([][]byte, error)) error {
	brief := own.brief()
	mine, err := json.Marshal(brief)
	if err != nil {
		return err
	}
	encoded, err := gather("replica", mine)
	if err != nil {
		return err
	}
	all, equal := make([]Replica, len(encoded)), true
	for r, b := range encoded {
		var its replicaBrief
		if err := json.Unmarshal(b, &its); err != nil {
			return notUnderstood(r, err)
		}
		all[r].GPU, equal = its.GPU, equal && its.Digest == brief.Digest
	}
	if !equal {
		if encoded, err = gather("replica in full", own.Encode()); err != nil {
			return err
		}
		return VerifyReplicas(encoded, shared)
	}
	if shared {
		return nil
	}
	return ownDevices(all)
}

func notUnderstood(rank int, err error) error {
	return disagree("rank %d describes its model in a form that is not understood (another version of trainctl?): %v", rank, err)
}

// VerifyReplicas compares what all ranks encoded, in rank order, with rank 0.
// It gives the same error on every rank, naming the first rank that differs
// and the first parameter it differs in. Two ranks on one GPU are an error
// unless devices may be shared. The error is a *DisagreementError.
func VerifyReplicas(encoded [][]byte, shared bool) error {
	all := make([]Replica, len(encoded))
	for r, b := range encoded {
		if err := json.Unmarshal(b, &all[r]); err != nil {
			return notUnderstood(r, err)
		}
	}
	for r := 1; r < len(all); r++ {
		if err := all[0].compare(all[r], r); err != nil {
			return err
		}
	}
	if shared {
		return nil
	}
	return ownDevices(all)
}

// ownDevices names the first two ranks that would compute on the same GPU.
func ownDevices(all []Replica) error {
	user := map[string]int{}
	for r, a := range all {
		first, taken := user[a.GPU.UUID]
		if taken && a.GPU.UUID != "" {
			return disagree("ranks %d and %d would both compute on %s (%s): start one rank per GPU (launch.nproc_per_node = \"auto\"), or set run.allow_shared_device = true", first, r, a.GPU.UUID, a.GPU.Name)
		}
		user[a.GPU.UUID] = r
	}
	return nil
}

func (r Replica) compare(o Replica, rank int) error {
	if err := r.compareState(o, rank); err != nil {
		return r.withBuilds(err, o, rank)
	}
	if r.Dataset != o.Dataset {
		return disagree("ranks read different data: rank 0 has %s, rank %d has %s; give every node the same files", r.Dataset, rank, o.Dataset)
	}
	if r.Policy != o.Policy {
		return disagree("the precision plugin answers ranks differently: rank 0 has %s, rank %d has %s; it must give all of them the same policy", r.Policy, rank, o.Policy)
	}
	if r.Device != o.Device {
		return disagree("ranks compute on different devices: rank 0 on %s, rank %d on %s; set run.device = \"cpu\", or \"cuda\" to see what that rank's machine lacks", r.Device, rank, o.Device)
	}
	return r.compareConfig(o, rank)
}

func (r Replica) compareConfig(o Replica, rank int) error {
	if slices.Equal(r.Config, o.Config) {
		return nil
	}
	i := 0
	for at(r.Config, i) == at(o.Config, i) {
		i++
	}
	a, b := at(r.Config, i), at(o.Config, i)
	return r.withBuilds(disagree("ranks run different configurations: rank 0 has %s, rank %d has %s; give every node the same file and flags", a, rank, b), o, rank)
}

// at is a setting, for a message.
func at(settings []string, i int) string {
	if i >= len(settings) {
		return "no more settings"
	}
	return settings[i]
}

func (r Replica) compareState(o Replica, rank int) error {
	for i := range min(len(r.State), len(o.State)) {
		if a, b := r.State[i], o.State[i]; !a.same(b) {
			return disagree("ranks have different models: rank 0 has %d parameters and buffers, rank %d has %d; the first difference is %v on rank 0 and %v on rank %d",
				len(r.State), rank, len(o.State), a, b, rank)
		}
	}
	if a, b := len(r.State), len(o.State); a != b {
		longer, who := r.State, 0
		if b > a {
			longer, who = o.State, rank
		}
		return disagree("ranks have different models: rank 0 has %d parameters and buffers, rank %d has %d; %v exists only on rank %d",
			a, rank, b, longer[min(a, b)], who)
	}
	return nil
}

func (r Replica) withBuilds(err error, o Replica, rank int) error {
	if r.Build == o.Build || strings.TrimSpace(r.Build+o.Build) == "" {
		return err
	}
	return disagree("%v (rank 0 runs build %s, rank %d build %s)", err, r.Build, rank, o.Build)
}
