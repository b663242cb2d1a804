package tcp

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/plugins/internal/instance"
)

// handshake connects caller to listener, which is rank 0, and returns the error of each.
func handshake(t *testing.T, listener, caller sdk.Group, claim func(rank, stream int) bool) (inside, outside error) {
	t.Helper()
	a, c := New(), New()
	a.group, c.group = listener, caller
	a.set.connections, c.set.connections = 1, 1
	near, far := net.Pipe()
	done := make(chan error)
	go func() {
		_, err := a.receive(near, claim)
		near.Close()
		done <- err
	}()
	outside = c.dialHandshake(far, 0, 0)
	far.Close()
	return <-done, outside
}

func TestHandshake(t *testing.T) {
	free := func(int, int) bool { return true }
	for name, test := range map[string]struct {
		change func(*sdk.Group)
		claim  func(rank, stream int) bool
		want   string
	}{
		"same group":   {func(*sdk.Group) {}, free, ""},
		"stranger":     {func(g *sdk.Group) { g.Secret = []byte("guess") }, free, "secret"},
		"wrong job":    {func(g *sdk.Group) { g.JobID = "other" }, free, "another job"},
		"old rank":     {func(g *sdk.Group) { g.Generation-- }, free, "another generation"},
		"old group":    {func(g *sdk.Group) { g.Epoch-- }, free, "another epoch"},
		"wrong world":  {func(g *sdk.Group) { g.WorldSize = 5 }, free, "another world size"},
		"wrong rank":   {func(g *sdk.Group) { g.Rank = 0 }, free, "not expected"},
		"rank too big": {func(g *sdk.Group) { g.Rank = 3 }, free, "not expected"},
		"duplicate":    {func(*sdk.Group) {}, func(int, int) bool { return false }, "already connected"},
	} {
		t.Run(name, func(t *testing.T) {
			listener, caller := testGroup(0, 3), testGroup(1, 3)
			listener.Generation, caller.Generation = 2, 2
			listener.Epoch, caller.Epoch = 1, 1
			test.change(&caller)
			inside, outside := handshake(t, listener, caller, test.claim)
			if test.want == "" {
				if inside != nil || outside != nil {
					t.Fatalf("inside %v, outside %v", inside, outside)
				}
				return
			}
			if outside == nil || !strings.Contains(outside.Error(), test.want) {
				t.Errorf("the caller has %v, want %q", outside, test.want)
			}
			if inside == nil {
				t.Error("the listener accepted it")
			}
		})
	}
}

// A listener that does not know the secret learns nothing and is refused.
func TestFalseListener(t *testing.T) {
	b := New()
	b.group = testGroup(1, 2)
	near, far := net.Pipe()
	go func() {
		buf := make([]byte, len(magic)+nonceSize)
		near.Read(buf)
		near.Write(make([]byte, nonceSize+macSize))
	}()
	if err := b.dialHandshake(far, 0, 0); !errors.Is(err, errNoProof) {
		t.Errorf("dialHandshake: %v", err)
	}
	near.Close()
	far.Close()
}

func FuzzHandshake(f *testing.F) {
	f.Add([]byte(magic + strings.Repeat("n", nonceSize+helloSize+macSize)))
	f.Fuzz(func(t *testing.T, sent []byte) {
		b := New()
		b.group = testGroup(0, 2)
		near, far := net.Pipe()
		go func() {
			far.Write(sent)
			far.Close()
		}()
		go func() { // the answer is of no interest
			var sink [256]byte
			for {
				if _, err := far.Read(sink[:]); err != nil {
					return
				}
			}
		}()
		if _, err := b.receive(near, func(int, int) bool { return true }); err == nil {
			t.Error("it was accepted")
		}
		near.Close()
	})
}

func FuzzHeader(f *testing.F) {
	good := make([]byte, headerSize)
	header{kindCall, callSize}.encode(good)
	f.Add(good)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < headerSize {
			return
		}
		h, err := parseHeader(raw)
		if err != nil {
			return
		}
		if h.length > maxSegment || h.kind == kindCall && h.length < callSize {
			t.Errorf("%v was accepted", h)
		}
		again := make([]byte, headerSize)
		h.encode(again)
		if string(again) != string(raw[:headerSize]) {
			t.Errorf("%x was read as %x", raw[:headerSize], again)
		}
	})
}

func FuzzEndpoint(f *testing.F) {
	f.Add(instance.Encode(endpoint{Endpoint: instance.Endpoint{Version: 1, Rank: 3}, TCP: "10.0.0.1:4711", Host: "h", Unix: "@u"}))
	f.Add([]byte(`{"v":1,"rank":3,"tcp":"nowhere"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := instance.ParseEndpoint[endpoint](raw, 3, endpointVersion)
		if err == nil && (e.Rank != 3 || e.Version != endpointVersion) {
			t.Errorf("%q was accepted as %+v", raw, e)
		}
	})
}
