package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read reads what Write wrote: the slices by rank, and the notes about what is missing. Names,
// and steps that are not ours, are as the file has them.
func Read(r io.Reader) (ranks [][]Slice, notes []string, err error) {
	in := bufio.NewReaderSize(r, 1<<16)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if len(line) == 0 && errors.Is(err, io.EOF) {
			return ranks, notes, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return ranks, notes, err
		}
		if n == 1 {
			notes, err = readHead(line)
		} else {
			ranks, err = readEvent(ranks, bytes.TrimRight(line, ",\n"))
		}
		if err != nil {
			return ranks, notes, fmt.Errorf("line %d: %w", n, err)
		}
	}
}

// readHead reads the first line, which the list of events continues.
func readHead(line []byte) (notes []string, err error) {
	var head struct {
		Unit  string `json:"displayTimeUnit"`
		Other struct {
			Notes []string `json:"notes"`
		} `json:"otherData"`
	}
	line = bytes.TrimSpace(line)
	if !bytes.HasSuffix(line, []byte(`"traceEvents":[`)) {
		return nil, errors.New("not a timeline of trainctl")
	}
	err = json.Unmarshal(append(slices.Clone(line), ']', '}'), &head)
	return head.Other.Notes, err
}

// mostRanks bounds what a damaged file can ask for.
const mostRanks = 1 << 20

func readEvent(ranks [][]Slice, line []byte) ([][]Slice, error) {
	if len(line) == 0 || line[0] == ']' { // the end
		return ranks, nil
	}
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		return ranks, err
	}
	if e.PID < 0 || e.PID >= mostRanks {
		return ranks, fmt.Errorf("rank %d", e.PID)
	}
	for len(ranks) <= e.PID {
		ranks = append(ranks, nil)
	}
	if e.Ph == "X" {
		ranks[e.PID] = append(ranks[e.PID], e.slice())
	}
	return ranks, nil
}

// slice is the inverse of Slice.event.
func (e *event) slice() Slice {
	s := Slice{
		Stream: Stream(e.TID), Name: e.Name, Index: -1, Step: e.arg("step"), Bytes: e.arg("bytes"),
		Start: time.Duration(e.TS * 1e3), Length: time.Duration(e.Dur * 1e3),
	}
	if name, index, ok := strings.Cut(e.Name, " "); ok {
		if i, err := strconv.Atoi(index); err == nil {
			s.Name, s.Index = name, i
		}
	}
	return s
}

func (e *event) arg(name string) int {
	n, _ := e.Args[name].(float64)
	return int(n)
}

// String is the name of the stream in traces.
func (s Stream) String() string {
	if s >= streams {
		return fmt.Sprint("stream ", int(s))
	}
	return streamNames[s]
}
