package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/sdk/pb"
)

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
	err := &PluginError{Kind: sdk.KindBackend, Name: "star", Phase: "all_reduce #3", Cause: fmt.Errorf("%w: it gives no sign of life for 10s", ErrHung), Stack: []string{"goroutine 12 [select]", "main.(*Star).Do at star.go:118"}}
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
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "it did not open within dataset.timeout = 20ms; fix: raise dataset.timeout") {
		t.Error(err)
	}
	if err := d.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestHandshakeVersion(t *testing.T) {
	for line, want := range map[string]int{
		"1|1|unix|/tmp/x|grpc|cert": 1,
		"1|12|unix|/tmp/x|grpc":     12,
		"1|0|unix|/tmp/x|grpc|":     0,
		"2|1|unix|/tmp/x|grpc|":     0,
		"1|x|unix|/tmp/x|grpc|":     0,
		"1|1|unix":                  0,
		"hello":                     0,
	} {
		if got, _ := handshakeVersion(line); got != want {
			t.Errorf("%q: version %d, want %d", line, got, want)
		}
	}
}
