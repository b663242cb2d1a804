package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"time"

	"github.com/trainctl/trainctl/core/bench"
	"github.com/trainctl/trainctl/core/report/event"
)

// copied is how a state came to a node that joined.
type copied struct {
	Bytes    float64 `json:"bytes"`     // that the other node sent meanwhile
	Link     float64 `json:"link_gbps"` // Gbit/s
	Used     float64 `json:"used"`      // of the link, while the middle 90 % of the bytes were sent
	Standing float64 `json:"stood_still_s"`
}

// resnet50 has images as small as possible: the state is what counts.
func resnet50() string {
	return common("nnodes = \"1:2\"\nnproc_per_node = 1\n", "epochs = 1000000\nglobal_batch = 2\n") +
		"[dataset.options]\nshape = [3, 32, 32]\ntrain_samples = 512\ntest_samples = 0\n[model]\nname = \"resnet50\"\nstem = \"cifar\"\n"
}

// copy lets a node join another one over a slow link.
func (b *measuring) copy(ctx context.Context, r *report) error {
	hosts, err := bench.NewHosts(2)
	if err != nil {
		return err
	}
	defer hosts.Close()
	for i := range 2 {
		limit := exec.CommandContext(ctx, "tc", "-n", hosts.Name(i), "qdisc", "add", "dev", hosts.Device(), "root", "tbf", "rate", fmt.Sprintf("%.0fmbit", 1000*b.link), "burst", "256kb", "latency", "50ms")
		if out, err := limit.CombinedOutput(); err != nil {
			return fmt.Errorf("limiting the link: %w: %s", err, out)
		}
	}
	t, err := b.newTrial(resnet50())
	if err != nil {
		return err
	}
	defer t.stop()
	begin := func(i int) error {
		args := t.args("--node-rank", strconv.Itoa(i), "--rdzv-endpoint", hosts.Addr(0)+":"+port)
		return t.start(hosts.Command(ctx, i, args[0], args[1:]...))
	}
	if err := begin(0); err != nil {
		return err
	}
	if _, err := t.reaches(ctx, t.steps, func(all []step) bool { return len(all) > 2 }); err != nil {
		return err
	}
	if err := begin(1); err != nil {
		return err
	}
	var sent []sample
	took := 0.0
	if _, err := t.reaches(ctx, t.steps, func([]step) bool {
		n, err := sentBytes(ctx, hosts)
		if err == nil {
			sent = append(sent, sample{time.Now(), n})
		}
		took = t.joined()
		return took > 0
	}); err != nil {
		return err
	}
	c := use(sent, b.link)
	c.Standing = took / 1e3
	r.Copy = &c
	_, err = fmt.Fprintf(b.w, "%.0f MB went to the node that joined, at %.0f %% of %v Gbit/s; the other node stood still for %.2f s\n", c.Bytes/1e6, 100*c.Used, b.link, c.Standing)
	return err
}

// joined is how long the ranks stood still until another one had joined, in milliseconds; 0: none has.
func (t *trial) joined() float64 {
	all, _ := t.events()
	for _, r := range all {
		if e, ok := r.Event.(*event.Elastic); ok && len(e.Joined) > 0 {
			return e.TookMS
		}
	}
	return 0
}

// sample is how many bytes a device had sent at a time.
type sample struct {
	at time.Time
	n  float64
}

// sentBytes asks for what the first host has sent.
func sentBytes(ctx context.Context, h *bench.Hosts) (float64, error) {
	out, err := exec.CommandContext(ctx, "ip", "-n", h.Name(0), "-s", "-j", "link", "show", "dev", h.Device()).Output()
	if err != nil {
		return 0, err
	}
	var devices []struct {
		Stats64 struct{ TX struct{ Bytes float64 } }
	}
	if err := json.Unmarshal(out, &devices); err != nil || len(devices) != 1 {
		return 0, fmt.Errorf("ip -s -j link: %d devices: %w", len(devices), err)
	}
	return devices[0].Stats64.TX.Bytes, nil
}

// use is how much of a link, in Gbit/s, was used while the middle 90 % of the bytes were sent.
func use(sent []sample, link float64) (c copied) {
	c.Link = link
	if len(sent) < 2 {
		return c
	}
	first, last := sent[0], sent[len(sent)-1]
	c.Bytes = last.n - first.n
	var from, to sample
	for _, s := range sent {
		if s.n-first.n <= 0.05*c.Bytes {
			from = s
		}
		if to.at.IsZero() && s.n-first.n >= 0.95*c.Bytes {
			to = s
		}
	}
	if d := to.at.Sub(from.at).Seconds(); d > 0 {
		c.Used = (to.n - from.n) * 8 / 1e9 / link / d
	}
	return c
}
