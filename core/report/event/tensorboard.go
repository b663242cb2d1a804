package event

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/appendfile"
)

// FlushEvery is the longest time that a scalar stays in memory while events arrive.
const FlushEvery = 5 * time.Second

// flushBytes is the maximum size of the buffer: very short steps would fill memory
// before FlushEvery.
const flushBytes = 64 << 10

// TensorBoard writes the scalars of step and evaluation events into one event file,
// with the optimizer step on the X axis. It ignores other events.
type TensorBoard struct {
	fs      afero.Fs
	dir     string
	name    string // of f, which may have changed
	f       afero.File
	buf     []byte // records not yet written
	event   []byte // scratch for one record
	flushed time.Time
	failing bool
	warn    trouble
}

// keepBytes is how much is kept in memory while the disk is full.
const keepBytes = 4 << 20

// NewTensorBoard creates dir and a new event file in it. A failed write is reported
// through warn, which may be nil; its scalars are written later, or dropped if that
// takes too long.
func NewTensorBoard(fsys afero.Fs, dir string, warn func(error)) (*TensorBoard, error) {
	if err := fsys.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	now := time.Now()
	for n := 0; ; n++ {
		name := filepath.Join(dir, fmt.Sprintf("%s%d.%s.%d.%d", eventFile, now.Unix(), host, os.Getpid(), n))
		f, err := fsys.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
		if os.IsExist(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("tensorboard: %w", err)
		}
		t := &TensorBoard{fs: fsys, dir: dir, name: name, f: f, flushed: now, warn: trouble{tell: warn}}
		t.version(now)
		return t, nil
	}
}

// Emit buffers the scalars of an event.
func (t *TensorBoard) Emit(r Record) {
	switch e := r.Event.(type) {
	case *CheckpointLoaded:
		if e.Step == 0 {
			return // only the weights were loaded
		}
		t.goOn(r.Time, e)
	case *StepDone:
		t.step(r.Time, e)
	case *EvalDone:
		t.begin(r.Time, e.Step)
		t.scalar("val/loss", e.Loss)
		if !(e.Accuracy < 0) {
			t.scalar("val/accuracy", e.Accuracy)
		}
		if m := e.Metrics; m != nil && m.TopK > 0 {
			t.scalar("val/top_k_accuracy", float64(m.TopKAccuracy))
		}
		if e.Perplexity != 0 {
			t.scalar("val/perplexity", e.Perplexity)
		}
		if e.BitsPerByte != 0 {
			t.scalar("val/bits_per_byte", e.BitsPerByte)
		}
		t.end()
	default:
		return
	}
	if len(t.buf) >= flushBytes && !t.failing || r.Time.Sub(t.flushed) >= FlushEvery {
		t.flush(r.Time)
	}
}

// goOn joins the curve of this run with that of the run it continues: it links the
// earlier files, and SessionLog.START (tensorflow/core/util/event.proto) discards their
// steps after the checkpoint. If the earlier run was deleted, there is no curve to join.
func (t *TensorBoard) goOn(at time.Time, e *CheckpointLoaded) {
	if d, ok := RunOf(t.fs, e.Path); ok {
		if err := t.take(d.TensorBoard()); err != nil {
			t.warn.happened(fmt.Errorf("TensorBoard shows the curve only from step %d: %w", e.Step+1, err))
		}
	}
	t.begin(at, e.Step+1)
	t.event = append(t.event, 7<<3|bytesType, 2, 1<<3|varint, 1) // session_log, status, START
	t.end()
}

// take links the event files of an earlier run into this one's directory. TensorBoard
// reads files in the order of their names, so this run's file becomes the last.
func (t *TensorBoard) take(from string) error {
	files, err := afero.Glob(t.fs, filepath.Join(from, eventFile+"*"))
	if err != nil || len(files) == 0 || sameDir(t.fs, from, t.dir) {
		return err
	}
	if err := t.follow(filepath.Base(slices.Max(files))); err != nil {
		return err
	}
	for _, f := range files {
		if err := linkOrCopy(t.fs, f, filepath.Join(t.dir, filepath.Base(f))); err != nil {
			return err
		}
	}
	return nil
}

// follow gives the file a name that sorts after another one's, if it does not yet: runs
// may start in the same second, or on hosts whose clocks differ.
func (t *TensorBoard) follow(last string) error {
	own := filepath.Base(t.name)
	if last < own {
		return nil
	}
	second, _, _ := strings.Cut(strings.TrimPrefix(last, eventFile), ".")
	n, err := strconv.ParseInt(second, 10, 64)
	if err != nil {
		return fmt.Errorf("event file %s has no time in its name", last)
	}
	_, rest, _ := strings.Cut(strings.TrimPrefix(own, eventFile), ".")
	behind := filepath.Join(t.dir, fmt.Sprintf("%s%d.%s", eventFile, n+1, rest))
	if err := t.fs.Rename(t.name, behind); err != nil {
		return err
	}
	t.name = behind
	return nil
}

// eventFile is how the names of event files begin.
const eventFile = "events.out.tfevents."

func sameDir(fsys afero.Fs, a, b string) bool {
	x, err1 := fsys.Stat(a)
	y, err2 := fsys.Stat(b)
	return filepath.Clean(a) == filepath.Clean(b) || err1 == nil && err2 == nil && os.SameFile(x, y)
}

// linkOrCopy creates a hard link, or a copy if that is not possible; it keeps an
// existing file.
func linkOrCopy(fsys afero.Fs, from, to string) error {
	if _, err := fsys.Stat(to); err == nil {
		return nil
	}
	if l, ok := fsys.(interface{ Link(from, to string) error }); ok && l.Link(from, to) == nil {
		return nil
	}
	r, err := fsys.Open(from)
	if err != nil {
		return err
	}
	defer r.Close()
	tmp := filepath.Join(filepath.Dir(to), ".copy-"+strings.TrimPrefix(filepath.Base(to), eventFile))
	err = afero.WriteReader(fsys, tmp, r)
	if err == nil {
		err = fsys.Rename(tmp, to)
	}
	if err != nil {
		_ = fsys.Remove(tmp)
	}
	return err
}

func (t *TensorBoard) step(at time.Time, e *StepDone) {
	t.begin(at, e.Step)
	t.scalar("train/loss", e.LossMean)
	if !(e.Accuracy < 0) {
		t.scalar("train/accuracy", e.Accuracy)
	}
	t.scalar("opt/lr", e.LR)
	if e.GradNorm != 0 {
		t.scalar("opt/grad_norm", e.GradNorm)
	}
	if e.Scale != 0 {
		t.scalar("amp/scale", e.Scale)
	}
	t.scalar("perf/samples_per_sec", e.SamplesPerSec)
	if e.Tokens != 0 {
		t.scalar("perf/tokens_per_sec", e.TokensPerSec)
	}
	if e.StepMS > 0 {
		t.scalar("perf/data_wait_pct", 100*e.DataMS/e.StepMS)
		t.scalar("perf/comm_exposed_pct", 100*e.CommMS/e.StepMS)
	}
	t.end()
}

// Close writes what is buffered and closes the file.
func (t *TensorBoard) Close() error {
	t.flush(time.Now())
	return t.f.Close()
}

func (t *TensorBoard) flush(now time.Time) {
	t.flushed = now
	err := appendfile.Write(t.f, t.buf)
	if err == nil {
		t.buf, t.failing = t.buf[:0], false
		return
	}
	if !t.failing {
		t.warn.happened(fmt.Errorf("TensorBoard files are not written until there is disk space: %w", err))
	}
	t.failing = true
	if len(t.buf) > keepBytes {
		t.buf = t.buf[:0]
	}
}

func (t *TensorBoard) report() func() { return t.warn.report() }

// The file is a sequence of TFRecords that hold Event messages
// (tensorflow/core/util/event.proto); the few fields needed are encoded here.

func (t *TensorBoard) version(now time.Time) {
	t.event = appendWallTime(t.event[:0], now)
	t.event = appendBytes(t.event, 3, "brain.Event:2") // file_version
	t.buf = appendTFRecord(t.buf, t.event)
}

func (t *TensorBoard) begin(at time.Time, step int) {
	t.event = appendWallTime(t.event[:0], at)
	t.event = append(t.event, 2<<3|varint) // step
	t.event = binary.AppendUvarint(t.event, uint64(step))
}

// scalar appends a summary of one value. Several summaries in one message
// merge into one, as protobuf defines it.
func (t *TensorBoard) scalar(tag string, v float64) {
	value := 2 + len(tag) + 5 // tag, simple_value
	t.event = append(t.event, 5<<3|bytesType, byte(value+2), 1<<3|bytesType, byte(value))
	t.event = appendBytes(t.event, 1, tag)
	t.event = append(t.event, 2<<3|fixed32)
	t.event = binary.LittleEndian.AppendUint32(t.event, math.Float32bits(float32(v)))
}

func (t *TensorBoard) end() { t.buf = appendTFRecord(t.buf, t.event) }

// Wire types of protobuf.
const (
	varint    = 0
	fixed64   = 1
	bytesType = 2
	fixed32   = 5
)

func appendWallTime(b []byte, at time.Time) []byte {
	b = append(b, 1<<3|fixed64)
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(at.UnixMicro())/1e6))
}

// appendBytes writes a field of fewer than 128 bytes.
func appendBytes(b []byte, field byte, s string) []byte {
	b = append(b, field<<3|bytesType, byte(len(s)))
	return append(b, s...)
}

// appendTFRecord frames data as tensorflow/core/lib/io/record_writer.h does.
func appendTFRecord(b, data []byte) []byte {
	start := len(b)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(data)))
	b = binary.LittleEndian.AppendUint32(b, maskedCRC(b[start:]))
	b = append(b, data...)
	return binary.LittleEndian.AppendUint32(b, maskedCRC(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is rotated and shifted, so that checksums of data that contains checksums stay useful.
func maskedCRC(b []byte) uint32 {
	c := crc32.Checksum(b, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}

var _ Sink = (*TensorBoard)(nil)
