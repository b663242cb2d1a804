// Command halting is a backend plugin for tests: tcp, which halts where a test asks it to.
//
// A file NODE-STAGE in its folder asks: the plugin of that node removes the file when it reaches the stage, and
// goes on when the file NODE is removed.
package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	tcp "github.com/trainctl/trainctl/plugins/backend-tcp"
)

type halting struct {
	*tcp.Backend
	folder string
}

// Info is that of tcp, with an option.
func (h *halting) Info() sdk.Info {
	info := h.Backend.Info()
	info.Name = "halting"
	info.Options = append(info.Options, sdk.Option{Name: "folder", Type: sdk.String, Required: true, Doc: "folder of the requests, which exists"})
	return info
}

// at halts at a stage, if a test has asked for that.
func (h *halting) at(stage string) {
	node := filepath.Join(h.folder, os.Getenv("GROUP_RANK"))
	if os.Remove(node+"-"+stage) != nil {
		return
	}
	for _, err := os.Stat(node); err == nil; _, err = os.Stat(node) {
		time.Sleep(time.Millisecond)
	}
}

// Open removes the option, which tcp does not know.
func (h *halting) Open(ctx context.Context, group sdk.Group, o sdk.Options) error {
	h.folder = o.String("folder")
	delete(o, "folder")
	return h.Backend.Open(ctx, group, o)
}

// Listen is tcp's.
func (h *halting) Listen(ctx context.Context) ([]byte, error) {
	h.at("listen")
	return h.Backend.Listen(ctx)
}

// Connect is tcp's.
func (h *halting) Connect(ctx context.Context, endpoints [][]byte) error {
	h.at("connect")
	err := h.Backend.Connect(ctx, endpoints)
	h.at("connected")
	return err
}

// Do is tcp's.
func (h *halting) Do(ctx context.Context, c *sdk.Collective) error {
	h.at(c.Op.String())
	return h.Backend.Do(ctx, c)
}

func main() {
	sdk.Serve(sdk.Plugin{Backend: func() sdk.Backend { return &halting{Backend: tcp.New()} }})
}
