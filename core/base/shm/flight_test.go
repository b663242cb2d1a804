package shm

import "testing"

func TestFlights(t *testing.T) {
	s, w, _ := newRing(t, Bell{})
	if n := len(s.Flights(10)); n != 0 {
		t.Errorf("%d operations before the first", n)
	}
	sub := Submission{Seq: 7, Size: 8, Op: 1, DType: 2, Reduce: 3, Bucket: -1}
	submit := func() {
		if err := s.Submit(&sub); err != nil {
			t.Fatal(err)
		}
	}
	last := func() Flight { return s.Flights(1)[0] }
	submit()
	f := last()
	if f.Ticket != 1 || f.Seq != 7 || f.Bytes != 8 || f.Op != 1 || f.DType != 2 || f.Reduce != 3 || f.Bucket != -1 || f.Enqueued.IsZero() || !f.Started.IsZero() || !f.Ended.IsZero() {
		t.Errorf("queued: %+v", f)
	}
	var got Submission
	if ok, err := w.Next(&got); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if f := last(); f.Started.Before(f.Enqueued) || !f.Ended.IsZero() {
		t.Errorf("started: %+v", f)
	}
	w.Post(&Completion{Status: Failed})
	if f := last(); f.Ended.Before(f.Started) || f.Status != Failed {
		t.Errorf("ended: %+v", f)
	}
	var done Completion
	for range Flights {
		if _, err := s.Complete(&done); err != nil {
			t.Fatal(err)
		}
		submit()
		if _, err := w.Next(&got); err != nil {
			t.Fatal(err)
		}
		w.Post(&Completion{})
	}
	all := s.Flights(2 * Flights)
	if len(all) != Flights || all[0].Ticket != 2 || all[Flights-1].Ticket != Flights+1 {
		t.Errorf("%d remembered, from %d to %d", len(all), all[0].Ticket, all[len(all)-1].Ticket)
	}
}

// A control arena from a host without the record serves as well.
func TestRingWithoutRecord(t *testing.T) {
	s, _, mem := newRing(t, Bell{})
	w, err := NewWorker(mem[:ringSize:ringSize], Bell{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Submit(&Submission{}); err != nil {
		t.Fatal(err)
	}
	var sub Submission
	if ok, err := w.Next(&sub); !ok || err != nil {
		t.Fatal(ok, err)
	}
	w.Post(&Completion{})
}
