package host

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

// gRPC for Python and C++ verifies P-256 and not P-521.
func TestTheHostsCertificateIsP256(t *testing.T) {
	text, config, err := certificate()
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := cert.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T", cert.PublicKey)
	}
	if err := cert.VerifyHostname("localhost"); err != nil || len(config.Certificates) != 1 {
		t.Error(err)
	}
}

// A dump tells which goroutine is in the plugin's code, and where.
func TestTheHangingGoroutineIsFound(t *testing.T) {
	l := &lines{log: slog.New(slog.DiscardHandler)}
	for line := range strings.Lines(`an ordinary line
SIGQUIT: quit
PC=0x47e0a1 m=0 sigcode=0

goroutine 1 [select, 2 minutes]:
github.com/hashicorp/go-plugin.Serve(0xc000190d80)
	/mod/go-plugin/server.go:527 +0x1b4
main.main()
	/src/main.go:9 +0x4f

goroutine 12 [select (no cases), 2 minutes]:
main.(*wire).read(...)
	/src/mine/wire.go:31
main.(*Star).Do(0xc0000b4000, {0x9d3f80, 0xc0001b2000}, 0xc00011c0a0)
	/src/mine/star.go:118 +0x1f
github.com/trainctl/trainctl/core/sdk.(*server).do.func1({0x9d3f80?, 0xc0001b2000?})
	/mod/core/sdk/work.go:126 +0x3a
github.com/trainctl/trainctl/core/sdk.(*server).do(0xc0001a0000, {0x9d3f80, 0xc0001b2000}, 0x0, 0xc00011c0a0)
	/mod/core/sdk/work.go:127 +0x8d
`) {
		l.add(strings.TrimSuffix(line, "\n"))
	}
	got := l.hanging()
	want := []string{"goroutine 12 [select (no cases), 2 minutes]", "main.(*wire).read at src/mine/wire.go:31", "main.(*Star).Do at src/mine/star.go:118"}
	if len(got) < 3 || !slices.Equal(got[:3], want) {
		t.Errorf("%q", got)
	}
	if last := l.last(); len(last) != 1 || last[0] != "an ordinary line" {
		t.Errorf("the dump pushed out the last lines: %q", last)
	}
}

// What floods the log is left out and counted, and what comes later is logged.
func TestFloodsAreLimited(t *testing.T) {
	var r rate
	now := time.Unix(1, 0)
	passed, dropped := 0, 0
	for i := range 1_000_000 { // ten seconds of 100,000 lines a second
		ok, n := r.admit(now.Add(time.Duration(i) * 10 * time.Microsecond))
		if ok {
			passed++
		}
		dropped += n
	}
	if want := lineBurst + 10*linesPerSecond; passed < want-1 || passed > want+1 {
		t.Errorf("%d lines passed, want %d", passed, want)
	}
	if ok, n := r.admit(now.Add(time.Minute)); !ok || passed+dropped+n != 1_000_000 {
		t.Errorf("of a million lines %d passed and %d are told as dropped", passed, dropped+n)
	}
}

// A plugin that starts plugins would be started by them again.
func TestPluginsStartNoPlugins(t *testing.T) {
	t.Setenv(pb.Handshake.MagicCookieKey, pb.Handshake.MagicCookieValue)
	_, err := New(Options{}).StartBackend(t.Context(), "./anything")
	var refused *StartError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "this process is a plugin itself") {
		t.Error(err)
	}
}

func TestWhereItHangsIsInTheError(t *testing.T) {
	err := &PluginError{Kind: sdk.KindBackend, Name: "star", Phase: "all_reduce #3", Cause: fmt.Errorf("%w for 10s", ErrHung), Stack: []string{"goroutine 12 [select]", "main.(*Star).Do at star.go:118"}}
	if !strings.Contains(err.Error(), "it hangs in:\n  goroutine 12 [select]\n  main.(*Star).Do at star.go:118") {
		t.Error(err)
	}
}

// neverOpen is a data set whose files do not come.
type neverOpen struct{ sdk.Dataset }

func (neverOpen) Info() sdk.Info { return sdk.Info{Name: "never"} }
func (neverOpen) Close() error   { return nil }
func (neverOpen) Open(ctx context.Context, _ sdk.DatasetRequest) (sdk.DatasetSpec, error) {
	<-ctx.Done()
	return sdk.DatasetSpec{}, ctx.Err()
}

// dataset.timeout holds for opening as well, and is named.
func TestOpeningDataIsBounded(t *testing.T) {
	d := InProcessDataset(neverOpen{})
	d.Timeout = 20 * time.Millisecond
	_, err := d.Open(t.Context(), sdk.DatasetRequest{})
	var failed *PluginError
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "it was not open within dataset.timeout = 20ms; fix: raise dataset.timeout") {
		t.Error(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
