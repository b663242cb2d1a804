package rank

import (
	"bytes"
	"errors"
	"testing"
)

func TestFrameRoundTrip(t *testing.T) {
	for _, f := range []frame{{op: opSet, id: 7, body: []byte("abc")}, {op: opBye, id: 1<<64 - 1, body: []byte{}}} {
		var b bytes.Buffer
		if err := writeFrame(&b, f); err != nil {
			t.Fatal(err)
		}
		got, err := readFrame(&b, maxFrame)
		if err != nil || got.op != f.op || got.id != f.id || !bytes.Equal(got.body, f.body) {
			t.Errorf("%+v %v", got, err)
		}
	}
}

func TestFrameLengthIsBounded(t *testing.T) {
	for _, head := range []string{"\x00\x00\x00\x08", "\xff\xff\xff\xff", "\x00\x00\x10\x01"} {
		if _, err := readFrame(bytes.NewReader([]byte(head+"123456789")), maxHelloFrame); !errors.Is(err, errFrame) {
			t.Errorf("%x: %v", head, err)
		}
	}
	if err := writeFrame(&bytes.Buffer{}, frame{body: make([]byte, maxFrame)}); !errors.Is(err, errFrame) {
		t.Error(err)
	}
}

// Whatever a peer sends, the store answers or refuses, and does not fall over.
func FuzzState(f *testing.F) {
	seed := func(fs ...frame) {
		var b bytes.Buffer
		for _, x := range fs {
			writeFrame(&b, x)
		}
		f.Add(b.Bytes())
	}
	seed(frame{op: opSet, id: 1, body: fields{}.text("k").text("v")}, frame{op: opGet, id: 2, body: fields{}.text("k")})
	seed(frame{op: opGather, id: 1, body: fields{}.text("g").number(0).number(2).text("v")}, frame{op: opCancel, body: fields{}.number(1)})
	seed(frame{op: opWait, id: 1, body: fields{}.list([][]byte{[]byte("a"), []byte("b")})}, frame{op: opPoll, body: fields{}.number(1)})
	seed(frame{op: opAdd, id: 1, body: fields{}.text("c").number(-3)}, frame{op: opCompareAndSet, id: 2, body: fields{}.text("c").text("").text("x")})
	seed(frame{op: opDelete, id: 1, body: fields{}.text("c")}, frame{op: opHello, id: 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newState(2, nil, func(request, frame) {})
		b.join(Peer{Rank: 0})
		r := bytes.NewReader(data)
		for {
			fr, err := readFrame(r, maxFrame)
			if err != nil {
				break
			}
			if b.ask(request{0, fr.id}, fr) != nil {
				break
			}
		}
		b.leave(0, false, "")
		if len(b.waits) != 0 || len(b.byKey) != 0 {
			t.Errorf("waits of a rank that left: %d, %d", len(b.waits), len(b.byKey))
		}
		parseHello(frame{op: opHello, body: data})
	})
}
