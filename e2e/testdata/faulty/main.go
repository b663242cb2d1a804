// Command faulty is a plugin of any kind that misbehaves as its option fault
// says, on rank 1 and from the tenth call on.
package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/amp"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
	"github.com/trainctl/trainctl/plugins/datasets/synthetic"
)

func faultOption() sdk.Option {
	return sdk.Option{Name: "fault", Type: sdk.String, Default: "none", Doc: "what to do wrong"}
}

// renamed is the Info of another plugin, with the option.
func renamed(info sdk.Info) sdk.Info {
	info.Name, info.Version = "faulty", "6.6.6"
	info.Options = append(info.Options, faultOption())
	return info
}

type dataset struct {
	*synthetic.Dataset
	fault string
	rank  int
	calls int
	leak  [][]byte
}

// Info is that of synthetic, with the option.
func (d *dataset) Info() sdk.Info {
	return renamed(d.Dataset.Info())
}

// Open lies about what it has.
func (d *dataset) Open(ctx context.Context, req sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	d.fault, d.rank = req.Options.String("fault"), req.Rank
	spec, err := d.Dataset.Open(ctx, req)
	if d.rank != 1 {
		return spec, err
	}
	switch d.fault {
	case "other shape":
		spec.Input.Shape = append(tensor.Shape{3}, spec.Input.Shape...)
	case "huge shape":
		spec.Input.Shape = tensor.Shape{math.MaxInt32, math.MaxInt32, math.MaxInt32}
	case "negative shape":
		spec.Input.Shape = tensor.Shape{-16}
	case "long message":
		spec.Notice = strings.Repeat("long ", 30<<20)
	case "spy":
		return spec, spy()
	}
	return spec, err
}

// Fill misbehaves.
func (d *dataset) Fill(ctx context.Context, b *sdk.Batch) error {
	if err := d.Dataset.Fill(ctx, b); err != nil {
		return err
	}
	if d.calls++; d.rank != 1 || d.calls < 10 {
		return nil
	}
	switch d.fault {
	case "panic":
		panic("this plugin panics on purpose")
	case "slow":
		time.Sleep(20 * time.Millisecond)
	case "nan":
		x := tensor.View[float32](b.Input)
		x[0] = float32(math.NaN())
	case "label":
		tensor.View[int32](b.Target)[0] = 1 << 20
	case "outside":
		// A slot is a part of a mapping: what lies beside it is in reach.
		beyond := b.Input[:cap(b.Input)]
		for i := len(b.Input); i < len(beyond); i++ {
			beyond[i] = 0xff
		}
	case "flood":
		line := append(bytes.Repeat([]byte("flood "), 200), '\n')
		for range 200_000 {
			os.Stdout.Write(line)
		}
	case "close":
		for fd := 3; fd < 64; fd++ {
			syscall.Close(fd)
		}
	case "leak":
		for {
			page := make([]byte, 8<<20)
			for i := 0; i < len(page); i += 4096 {
				page[i] = 1
			}
			d.leak = append(d.leak, page)
		}
	}
	return nil
}

// spy tries what a plugin has no business to do, and leaves a process behind.
func spy() error {
	var did []string
	home, _ := os.UserHomeDir()
	if b, err := os.ReadFile(home + "/secret"); err == nil {
		did = append(did, fmt.Sprintf("read %q", b))
	}
	if err := os.WriteFile(home+"/planted", nil, 0o644); err == nil {
		did = append(did, "wrote into the home directory")
	}
	if c, err := net.DialTimeout("tcp", os.Getenv("TRAINCTL_LIB_SPY"), time.Second); err == nil {
		c.Close()
		did = append(did, "opened a connection")
	}
	daemon := exec.Command("sleep", "1000")
	daemon.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	daemon.Start() // allowed; it must not outlive the run
	if len(did) > 0 {
		return fmt.Errorf("the spy %s", strings.Join(did, ", "))
	}
	return nil
}

type backend struct {
	*tcp.Backend
	fault string
	rank  int
	calls int
}

// Info is that of tcp, with the option.
func (b *backend) Info() sdk.Info {
	return renamed(b.Backend.Info())
}

// Open takes note of the option.
func (b *backend) Open(ctx context.Context, g sdk.Group, o sdk.Options) error {
	b.fault, b.rank = o.String("fault"), g.Rank
	return b.Backend.Open(ctx, g, o)
}

// Do misbehaves.
func (b *backend) Do(ctx context.Context, c *sdk.Collective) error {
	if b.calls++; b.rank == 1 && b.calls > 20 {
		switch b.fault {
		case "other size":
			other := *c
			other.Count = c.Count / 2
			other.Buf = c.Buf[:len(c.Buf)/c.Count*other.Count]
			return b.Backend.Do(ctx, &other)
		case "other op":
			other := *c
			other.Op = sdk.OpBroadcast
			return b.Backend.Do(ctx, &other)
		case "last words":
			fmt.Fprintln(os.Stderr, "these are my last words")
			return syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "wrong sum":
			err := b.Backend.Do(ctx, c)
			if c.DType == tensor.F32 && c.Bucket >= 0 {
				x := tensor.View[float32](c.Buf)
				x[0]++
			}
			return err
		}
	}
	return b.Backend.Do(ctx, c)
}

// precision is amp under another name.
type precision struct{ sdk.Precision }

// Info is that of amp, with the option.
func (p precision) Info() sdk.Info {
	return renamed(p.Precision.Info())
}

func main() {
	sdk.Serve(sdk.Plugin{
		Precision: func() sdk.Precision { return precision{amp.New()} },
		Dataset:   func() sdk.Dataset { return &dataset{Dataset: synthetic.New()} },
		Backend:   func() sdk.Backend { return &backend{Backend: tcp.New()} },
	})
}
