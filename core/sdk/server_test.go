package sdk

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trainctl/trainctl/core/base/localtls"
	"github.com/trainctl/trainctl/core/base/shm"
	"github.com/trainctl/trainctl/core/sdk/pb"
	"github.com/trainctl/trainctl/core/tensor"
)

func TestMain(m *testing.M) {
	if os.Getenv("TEST_SERVE") != "" {
		Serve(Plugin{Precision: func() Precision { return stub{} }})
	}
	os.Exit(m.Run())
}

type stub struct{}

func (stub) Info() Info {
	return Info{
		Name: "stub", Version: "0.1", Summary: "does nothing",
		Options: []Option{{Name: "level", Type: String, Default: "O1", Enum: []string{"O0", "O1"}, Doc: "How much."}},
	}
}

func (stub) Policy(context.Context, Options) (Policy, error)   { return Policy{}, nil }
func (stub) Update(context.Context, bool) (ScaleState, error)  { return ScaleState{}, nil }
func (stub) State(context.Context) (map[string]float64, error) { return nil, nil }
func (stub) Load(context.Context, map[string]float64) error    { return nil }
func (stub) Close() error                                      { return nil }

// stubBackend and stubDataset have the one method that matters here.
type stubBackend struct{ Backend }

func (stubBackend) Do(context.Context, *Collective) error { return nil }

type stubDataset struct{ Dataset }

func (stubDataset) Fill(context.Context, *Batch) error { return nil }

func TestStartedByHand(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "TEST_SERVE=1")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit: %v", err)
	}
	for _, want := range []string{"stub 0.1, a precision plugin for trainctl: does nothing", `level (string, one of "O0", "O1", default O1): How much.`, "of the TOML file to its path"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("%s\ndoes not say %q", out, want)
		}
	}
}

// go-plugin exits silently when it cannot listen.
func TestCannotListen(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "TEST_SERVE=1", pb.Handshake.MagicCookieKey+"="+pb.Handshake.MagicCookieValue, pb.EnvKind+"=precision",
		"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR=/does/not/exist")
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("exit: %v", err)
	}
	if s := string(out); !strings.Contains(s, "cannot listen for trainctl in /does/not/exist: ") || !strings.Contains(s, "no such file or directory") {
		t.Errorf("it says %q", s)
	}
}

// The process of a plugin accepts its host alone, and shows it a certificate on P-256.
func TestConnectionOfAProcess(t *testing.T) {
	text, config, err := localtls.Client()
	if err != nil {
		t.Fatal(err)
	}
	at := handshakeOf(t, string(text))
	der, err := base64.RawStdEncoding.DecodeString(at[5])
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if key, ok := leaf.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("the key is %T", leaf.PublicKey)
	}
	config.RootCAs, config.NextProtos = x509.NewCertPool(), []string{"h2"}
	config.RootCAs.AddCert(leaf)
	greeted := func(c *tls.Config) error { // gRPC's server speaks first
		conn, err := tls.Dial(at[2], at[3], c)
		if err == nil {
			defer conn.Close()
			_, err = conn.Read(make([]byte, 1))
		}
		return err
	}
	if err := greeted(config); err != nil {
		t.Error(err)
	}
	config.Certificates = nil
	if greeted(config) == nil {
		t.Error("a host without a certificate was accepted")
	}
}

// handshakeOf starts this program as a plugin for the host with a certificate, and returns the parts of its line.
func handshakeOf(t *testing.T, cert string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), "TEST_SERVE=1", pb.Handshake.MagicCookieKey+"="+pb.Handshake.MagicCookieValue, pb.EnvKind+"=precision",
		"PLUGIN_PROTOCOL_VERSIONS=1", "PLUGIN_UNIX_SOCKET_DIR="+dir, pb.EnvClientCert+"="+cert)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = cmd.Process.Kill(), cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(strings.TrimSpace(line), "|")
	if len(parts) != 6 || parts[0] != "1" || parts[1] != "1" {
		t.Fatalf("the handshake is %q", line)
	}
	return parts
}

// open is a server as after Open, with one arena of 4 KiB.
func open(t *testing.T, s *server) *server {
	t.Helper()
	mem, err := shm.New("test", 4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mem.Close() })
	s.arenas = map[uint32]*Arena{1: {ID: 1, Name: "test", Arena: mem}}
	s.ctx, s.abort = context.WithCancel(context.Background())
	t.Cleanup(s.abort)
	s.log = slog.New(slog.DiscardHandler)
	s.opened.Store(&opened{world: 2, spec: DatasetSpec{
		Input: tensor.Spec{DType: tensor.F32, Shape: tensor.Shape{2}}, Target: tensor.Spec{DType: tensor.I32}, TrainSamples: 10, TestSamples: 5,
	}})
	return s
}

// A host may be wrong or hostile: every field of a submission is checked.
func TestCollectivesAreChecked(t *testing.T) {
	good := shm.Submission{Op: uint8(OpAllReduce), DType: uint8(tensor.F32), Arena: 1, Offset: 4080, Count: 4, Size: 16}
	s := open(t, &server{backend: stubBackend{}})
	var done shm.Completion
	if err := s.operate(&good, &done); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*shm.Submission){
		"operation":      func(u *shm.Submission) { u.Op = 99 },
		"fill":           func(u *shm.Submission) { u.Op = pb.OpFill },
		"type":           func(u *shm.Submission) { u.DType = 200 },
		"reduction":      func(u *shm.Submission) { u.Reduce = 9 },
		"arena":          func(u *shm.Submission) { u.Arena = 2 },
		"offset":         func(u *shm.Submission) { u.Offset = 4084 },
		"huge offset":    func(u *shm.Submission) { u.Offset = 1<<64 - 8 },
		"misaligned":     func(u *shm.Submission) { u.Offset = 2 },
		"count":          func(u *shm.Submission) { u.Count = 5 },
		"huge count":     func(u *shm.Submission) { u.Count = 1 << 62; u.Size = 0 },
		"size":           func(u *shm.Submission) { u.Size = 8 },
		"size of gather": func(u *shm.Submission) { u.Op = uint8(OpAllGather) },
		"root":           func(u *shm.Submission) { u.Op, u.Root = uint8(OpBroadcast), 2 },
		"negative root":  func(u *shm.Submission) { u.Op, u.Root = uint8(OpSend), -1 },
	} {
		bad := good
		change(&bad)
		wantProtocolError(t, name, s.operate(&bad, &done))
	}
	s.opened.Store(nil)
	wantProtocolError(t, "before Open", s.operate(&good, &done))
}

func TestFillsAreChecked(t *testing.T) {
	s := open(t, &server{dataset: stubDataset{}})
	tensor.View[int64](s.arenas[1].Bytes()[:16])[1] = 9
	args := pb.FillArgs{Input: 64, InputSize: 16, Target: 128, TargetSize: 8}
	submission := func(a pb.FillArgs) *shm.Submission {
		u := &shm.Submission{Op: pb.OpFill, Arena: 1, Count: 2, Size: 16}
		a.Put(u.Payload[:])
		return u
	}
	var done shm.Completion
	if err := s.operate(submission(args), &done); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*pb.FillArgs){
		"split":      func(a *pb.FillArgs) { a.Split = 2 },
		"index":      func(a *pb.FillArgs) { a.Split = uint32(Test) },
		"input":      func(a *pb.FillArgs) { a.Input = 4088 },
		"target":     func(a *pb.FillArgs) { a.Target = 1 << 63 },
		"input size": func(a *pb.FillArgs) { a.InputSize = 8 },
	} {
		bad := args
		change(&bad)
		wantProtocolError(t, name, s.operate(submission(bad), &done))
	}
	u := submission(args)
	u.Offset = 4
	wantProtocolError(t, "misaligned indices", s.operate(u, &done))
	u = submission(args)
	u.Count = 1 << 61
	wantProtocolError(t, "count", s.operate(u, &done))
}

func wantProtocolError(t *testing.T, name string, err error) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeProtocol {
		t.Errorf("%s: %v", name, err)
	}
}

func TestErrorTexts(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&StallError{Seq: 12, Op: OpAllReduce, Bucket: 1, Missing: []int{3}, Waited: 30e9}, "all_reduce #12 stalled in bucket 1 after 30s: rank 3 did not arrive"},
		{&StallError{Seq: 3, Op: OpBarrier, Bucket: -1, Missing: []int{1}}, "barrier #3 stalled: rank 1 did not arrive"},
		{&StallError{Seq: 2, Op: OpBarrier, Bucket: -1, Missing: []int{1, 2}, Waited: 1e9}, "barrier #2 stalled after 1s: ranks 1, 2 did not arrive"},
		{&MismatchError{Rank: 0, Peer: 1, Mine: "#1 barrier", Its: "#2 barrier"}, "ranks called different collectives: rank 0 #1 barrier, rank 1 #2 barrier"},
		{&PeerError{Peer: 4, Seq: 9, Cause: "connection reset"}, "rank 4 in collective #9: connection reset"},
		{&PeerError{Peer: 4, Cause: "wrong secret"}, "rank 4: wrong secret"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	c := Collective{Seq: 12, Op: OpAllReduce, DType: tensor.F32, Count: 4096, Bucket: 1}
	if got, want := c.String(), "#12 all_reduce f32[4096] sum, bucket 1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A panic is reported with the place in the plugin's code.
func TestGuard(t *testing.T) {
	stderr := os.Stderr
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = null
	defer func() { os.Stderr = stderr; _ = null.Close() }()
	err = guard(func() error { panic("broken") })
	var e *Error
	if !errors.As(err, &e) || e.Code != CodePanic || !strings.HasPrefix(e.Text, "panic: broken at ") || !strings.Contains(e.Text, "server_test.go:") {
		t.Errorf("got %v", err)
	}
}
