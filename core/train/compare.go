package train

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/trainctl/trainctl/core/report/timeline"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/core/train/ddp"
	"github.com/trainctl/trainctl/core/train/replica"
)

// Ranks are replicas: after every step all have the same parameters, optimizer state
// and loss scale, bit for bit. A backend that sums incorrectly on one rank silently
// breaks this, so all ranks compare a hash of their state at every checkpoint, before
// anything is written.
//
// Compared are parameters, buffers, the optimizer's state with its master copies, the loss scale,
// and the count of steps. Buffers are compared after rank 0's were broadcast, which a checkpoint
// does even without ddp.broadcast_buffers. State that differs between ranks by design is excluded:
// compression errors, and the position in the data.

// compareReplicas returns an error on all ranks if their states, which are on the host, differ.
func (t *Trainer) compareReplicas(ctx context.Context) error {
	if t.World.Size == 1 {
		return nil
	}
	mark := t.trace.Now()
	names, sums := t.stateSums()
	t.trace.Since(timeline.Checkpoint, "hash", -1, mark)
	whole := xxhash.Sum64(tensor.Bytes(sums))
	all, err := t.agreement.Gather(ctx, float64(whole>>11)) // 53 bits: a float64 holds them
	if err != nil {
		return err
	}
	if v := replica.Compare(all); !v.Equal {
		return t.disagree(ctx, v, names, sums)
	}
	t.saver.equalAt = t.pos.Step
	return nil
}

// stateSums hashes everything that is equal on all ranks, by name.
func (t *Trainer) stateSums() (names []string, sums []uint64) {
	add := func(name string, data []byte) {
		names, sums = append(names, name), append(sums, xxhash.Sum64(data))
	}
	for _, m := range t.model.Named(t.model.Values) {
		add(m.Name, m.Data)
	}
	for _, s := range t.updater.Optimizer.State() {
		if !t.replication.Shards.Common(s.Name) {
			continue
		}
		add("the optimizer's "+s.Name, s.Data)
	}
	add("the loss scale", tensor.Bytes([]uint64{math.Float64bits(t.updater.Scaler.Scale)}))
	add("the count of steps", tensor.Bytes([]int64{int64(t.pos.Step), int64(t.pos.Applied)}))
	return names, sums
}

// disagree determines, together with all ranks, what differs. It reports the ranks that differ from
// the majority as the cause.
func (t *Trainer) disagree(ctx context.Context, v replica.Comparison, names []string, sums []uint64) error {
	text := fmt.Sprintf("%v after step %d%s; %s; the checkpoint was not written; fix: check the backend and precision plugins, the memory and the GPU of that rank",
		v, t.pos.Step, t.differing(ctx, names, sums), lastEqual(t.saver.equalAt))
	if len(v.Odd) == 0 || slices.Contains(v.Odd, t.World.Rank) {
		return fmt.Errorf("%s", text)
	}
	return ddp.NewPeerFailed(v.Odd[0], text)
}

// lastEqual describes the last step after which all ranks were equal; 0: none was compared yet.
func lastEqual(step int) string {
	if step == 0 {
		return "this was the first comparison"
	}
	return fmt.Sprintf("all were equal after step %d", step)
}

// differing describes the first tensor that differs between ranks. It uses the
// rendezvous store, because the backend may be faulty.
func (t *Trainer) differing(ctx context.Context, names []string, sums []uint64) string {
	ctx, cancel := context.WithTimeout(ctx, t.Settings.BackendTimeout)
	defer cancel()
	b, err := json.Marshal(sums)
	if err != nil {
		panic("train: " + err.Error())
	}
	replies, err := t.Gather(ctx, "state", b)
	if err != nil {
		return "" // says what differs, but not where
	}
	all := make([][]uint64, len(replies))
	for r, b := range replies {
		if json.Unmarshal(b, &all[r]) != nil || len(all[r]) != len(names) {
			return ""
		}
	}
	first, count := "", 0
	for i, name := range names {
		if slices.ContainsFunc(all, func(s []uint64) bool { return s[i] != all[0][i] }) {
			if count++; count == 1 {
				first = name
			}
		}
	}
	return fmt.Sprintf(", first in %s (%d of %d tensors)", first, count, len(names))
}
