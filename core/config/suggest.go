package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/trainctl/trainctl/core/base/similar"
)

// unknown reports a key that no field has, with the likeliest key meant: the
// same in another case, a sibling within a small edit distance, the name other
// frameworks use, or the same key of another table.
func (d decoder) unknown(table, key string, siblings []string) {
	at := join(table, key)
	for _, s := range siblings {
		if s != key && strings.EqualFold(s, key) {
			d.meant[join(table, s)] = true
			d.errorf(at, atKey, fmt.Sprintf("write %s", s), "unknown key: keys are case-sensitive")
			return
		}
	}
	if s := nearest(key, siblings); s != "" {
		d.meant[join(table, s)] = true
		d.errorf(at, atKey, fmt.Sprintf("did you mean %s?", s), "unknown key")
		return
	}
	if to, ok := elsewhere[normal(key)]; ok && !d.foreign {
		d.meant[to.key] = true
		d.errorf(at, atKey, to.help(), "unknown key")
		return
	}
	if homes := homesOf(key); len(homes) > 0 && table != "" && !d.foreign {
		d.errorf(at, atKey, "did you mean "+strings.Join(homes, " or ")+"?", "unknown key")
		return
	}
	where := "here"
	if table == "" {
		where = "at the top of the file"
	}
	d.errorf(at, atKey, fmt.Sprintf("known %s: %s", where, strings.Join(siblings, ", ")), "unknown key")
}

// moved is our equivalent of a setting known from another framework.
type moved struct {
	key  string // our key
	note string // the help if there is no key
}

func (m moved) help() string {
	if m.note != "" {
		return m.note
	}
	return "this is called " + m.key
}

// elsewhere maps names of PyTorch, torchrun, apex, Horovod, Lightning and
// torchtitan, in lower case without separators, to ours.
var elsewhere = map[string]moved{
	"learningrate":              {key: "optimizer.lr"},
	"batchsize":                 {key: "train.per_rank_batch", note: "use train.per_rank_batch (as PyTorch's DataLoader under DDP) or train.global_batch"},
	"localbatchsize":            {key: "train.per_rank_batch"},
	"microbatchsize":            {key: "train.per_rank_batch"},
	"globalbatchsize":           {key: "train.global_batch"},
	"numepochs":                 {key: "train.epochs"},
	"maxepochs":                 {key: "train.epochs"},
	"steps":                     {key: "train.max_steps"},
	"gradientaccumulationsteps": {key: "train.accumulate_steps"},
	"accumulategradbatches":     {key: "train.accumulate_steps"},
	"backwardpassesperstep":     {key: "train.accumulate_steps"},
	"maxgradnorm":               {key: "train.max_norm"},
	"gradientclipval":           {key: "train.max_norm"},
	"clipgrad":                  {key: "train.max_norm"},
	"loginterval":               {key: "train.log_freq"},
	"printfreq":                 {key: "train.log_freq"},
	"optlevel":                  {key: "precision.options.level"},
	"amplevel":                  {key: "precision.options.level"},
	"mixedprecision":            {key: "precision.plugin"},
	"numworkers":                {key: "sampler.prefetch", note: "the data set is read by one plugin process; sampler.prefetch sets how many batches it reads ahead"},
	"numprocesses":              {key: "launch.nproc_per_node"},
	"worldsize":                 {key: "launch.nproc_per_node", note: "the world size is launch.nnodes times launch.nproc_per_node"},
	"nummachines":               {key: "launch.nnodes"},
	"rdzvendpoint":              {note: "give it on the command line: --rdzv-endpoint HOST:PORT"},
	"noderank":                  {note: "give it on the command line: --node-rank N"},
	"staticgraph":               {note: "remove it: the plan is always static"},
	"gradientasbucketview":      {note: "remove it: gradients are always views of their bucket"},
	"delayallreduce":            {key: "ddp.overlap", note: "write ddp.overlap = false"},
	"messagesize":               {key: "ddp.bucket_cap_mb", note: "write ddp.bucket_cap_mb, in MiB instead of elements"},
	"fusionthresholdmb":         {key: "ddp.bucket_cap_mb"},
	"commhook":                  {key: "ddp.compress"},
	"convertsyncbatchnorm":      {key: "ddp.sync_batchnorm"},
	"timelinefilename":          {key: "metrics.timeline"},
	"horovodtimeline":           {key: "metrics.timeline"},
	"matrixapproximationrank":   {key: "ddp.powersgd_rank"},
	"startpowersgditer":         {key: "ddp.powersgd_start_step"},
	"savetopk":                  {key: "checkpoint.keep"},
	"keeplatestk":               {key: "checkpoint.keep"},
	"monitor":                   {key: "checkpoint.keep_best"},
	"saveevery":                 {key: "checkpoint.every"},
	"interval":                  {key: "checkpoint.every"},
	"asyncmode":                 {key: "checkpoint.async"},
	"resume":                    {note: "give it on the command line: --resume auto or --resume PATH"},
	"enabletensorboard":         {key: "metrics.tensorboard"},
	"inplace":                   {note: "remove it: the plan decides which operations run in place"},
	"backend":                   {key: "backend.plugin"},
}

func normal(key string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", ".", "").Replace(key))
}

// homesOf lists the tables that have a key of this name.
func homesOf(key string) (paths []string) {
	t := reflect.TypeFor[File]()
	tables, idx := fields(t)
	for _, name := range tables {
		table := t.Field(idx[name]).Type
		if table.Kind() != reflect.Struct { // a list of tables
			continue
		}
		if _, in := fields(table); in != nil {
			if _, ok := in[key]; ok {
				paths = append(paths, join(name, key))
			}
		}
	}
	return paths
}

// nearest is the candidate that key probably means, "" if it takes more edits than a
// third of the key's length (at least one).
func nearest(key string, candidates []string) string {
	return similar.Nearest(strings.ToLower(key), candidates, max(1, len(key)/3))
}
