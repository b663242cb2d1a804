package csv

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/similar"
	"github.com/trainctl/trainctl/core/base/usererr"
	"github.com/trainctl/trainctl/core/sdk"
	"github.com/trainctl/trainctl/core/tensor"
	"github.com/trainctl/trainctl/plugins/datasets/samples"
)

// table is the content of one file.
type table struct {
	path   string
	names  []string  // of the columns with inputs
	inputs []float64 // of all lines; NaN: missing, to be filled
	values []float64 // targets of a regression
	labels []string  // of a classification
	lines  []int     // of each sample in the file
}

// missing lists the fields that mean that there is no value.
var missing = []string{"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"}

// reader reads one file.
type reader struct {
	*csv.Reader
	s       *settings
	t       *table
	inputs  []int // columns, by position
	targets []int
}

// readTable reads a file. Errors name it, the line and the column.
func readTable(fsys afero.Fs, s *settings, path string) (*table, error) {
	f, err := fsys.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	r := reader{Reader: csv.NewReader(f), s: s, t: &table{path: path}}
	r.Comma, r.Comment, r.ReuseRecord, r.TrimLeadingSpace = s.delimiter, s.comment, true, s.delimiter != '\t'
	for first := true; ; first = false {
		record, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fix := "put quotes around fields with quotes in them, and double those"
			if errors.Is(err, csv.ErrFieldCount) {
				fix = "give every line as many fields as the first"
			}
			return nil, fmt.Errorf("%s: %w; fix: %s", path, err, fix)
		}
		if first {
			if err := r.choose(record); err != nil {
				return nil, err
			}
			if s.header {
				continue
			}
		}
		if err := r.sample(record); err != nil {
			return nil, err
		}
	}
	if len(r.t.lines) == 0 {
		return nil, fmt.Errorf("%s has no samples", path)
	}
	return r.t, nil
}

// choose finds the columns that are used, by the names in the first line or by number.
func (r *reader) choose(record []string) error {
	names := make([]string, len(record))
	for i, field := range record {
		names[i] = strings.TrimPrefix(strings.TrimSpace(field), "\ufeff") // the byte order mark with which some programs begin files
		if !r.s.header {
			names[i] = strconv.Itoa(i)
		}
	}
	columns := r.s.columns
	if columns == nil {
		columns = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(r.s.targets, n) })
	}
	var err error
	if !r.s.unlabelled {
		if r.targets, err = find(r.t.path, "targets", names, r.s.targets); err != nil {
			return err
		}
	}
	r.t.names = columns
	r.inputs, err = find(r.t.path, "columns", names, columns)
	return err
}

// find returns the positions of columns.
func find(path, key string, names, columns []string) (at []int, err error) {
	for _, c := range columns {
		switch i := slices.Index(names, c); {
		case i < 0:
			fix := "the file has " + strings.Join(names, ", ")
			if best := similar.Nearest(c, names, 3); best != "" {
				fix = "did you mean " + best + "?"
			}
			return nil, usererr.Errorf(key, fix, "%s has no column %q", path, c)
		case slices.Contains(names[i+1:], c):
			return nil, usererr.Errorf(key, "give every column a name of its own", "%s has two columns %q", path, c)
		default:
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil, usererr.Errorf(key, "name at least one column", "%s has no column left for the inputs", path)
	}
	return at, nil
}

// sample adds a line.
func (r *reader) sample(record []string) error {
	line, _ := r.FieldPos(0)
	r.t.lines = append(r.t.lines, line)
	for k, i := range r.inputs {
		v, err := r.number(record, i, r.t.names[k], r.s.fill)
		if err != nil {
			return err
		}
		r.t.inputs = append(r.t.inputs, v)
	}
	for k, i := range r.targets {
		if r.s.Classify {
			label := strings.TrimSpace(record[i])
			if label == "" {
				return r.wrong(i, r.s.targets[k], "is missing", "give the sample a class, or remove the line")
			}
			r.t.labels = append(r.t.labels, label)
			continue
		}
		v, err := r.number(record, i, r.s.targets[k], false)
		if err != nil {
			return err
		}
		r.t.values = append(r.t.values, v)
	}
	return nil
}

// number reads a field. A missing one is NaN if it will be filled.
func (r *reader) number(record []string, i int, column string, fill bool) (float64, error) {
	field := strings.TrimSpace(record[i])
	if slices.Contains(missing, field) {
		if fill {
			return math.NaN(), nil
		}
		return 0, r.wrong(i, column, "is missing", "fill it, remove the line, or set missing = \"mean\" for inputs")
	}
	v, err := strconv.ParseFloat(field, 64)
	if f := float32(v); err != nil || math.IsNaN(v) || math.IsInf(float64(f), 0) {
		return 0, r.wrong(i, column, fmt.Sprintf("is %q, which is not a finite number", field), "correct it, or leave the column out of columns")
	}
	return v, nil
}

// wrong is an error of one field.
func (r *reader) wrong(i int, column, what, fix string) error {
	line, at := r.FieldPos(i)
	return fmt.Errorf("%s:%d:%d: column %q %s; fix: %s", r.t.path, line, at, column, what, fix)
}

// means returns the mean of the inputs that are present, by column.
func (t *table) means() []float64 {
	width := len(t.names)
	sums, counts := make([]float64, width), make([]float64, width)
	for i, v := range t.inputs {
		if !math.IsNaN(v) {
			sums[i%width] += v
			counts[i%width]++
		}
	}
	for j := range sums {
		sums[j] /= max(counts[j], 1)
	}
	return sums
}

// fill replaces missing inputs.
func (t *table) fill(means []float64) {
	for i, v := range t.inputs {
		if math.IsNaN(v) {
			t.inputs[i] = means[i%len(means)]
		}
	}
}

// classNames are the names of the classes: those given, or the labels of the training file in
// order. Labels that are the integers from 0 on need no names.
func classNames(labels, given []string) []string {
	if given != nil {
		return given
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(labels)))
	numbers := make([]int, 0, len(distinct))
	for _, l := range distinct {
		n, err := strconv.Atoi(l)
		if err != nil {
			return distinct
		}
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	if numbers[0] == sdk.IgnoreIndex {
		numbers = numbers[1:]
	}
	if len(numbers) > 0 && numbers[0] == 0 && numbers[len(numbers)-1] == len(numbers)-1 {
		return nil
	}
	names := make([]string, len(numbers))
	for i, n := range numbers {
		names[i] = strconv.Itoa(n)
	}
	return names
}

// part returns the samples as arrays; without a file there are none.
func (t *table) part(s *settings) (p samples.Part, err error) {
	n := len(t.lines)
	if n == 0 {
		return p, nil
	}
	p.Input = t.input()
	if !s.Classify {
		p.Target = samples.Floats(t.path, tensor.Shape{n, len(s.targets)}, t.values)
		return p, nil
	}
	classes := make([]float64, n)
	for i, label := range t.labels {
		c, err := classOf(label, s.Classes)
		if err != nil {
			return p, fmt.Errorf("%s:%d: column %q: %w", t.path, t.lines[i], s.targets[0], err)
		}
		classes[i] = float64(c)
	}
	p.Target = samples.Floats(t.path, tensor.Shape{n}, classes)
	return p, nil
}

// classOf is the class of a label: its index among the names, or its number.
func classOf(label string, names []string) (int, error) {
	if i := slices.Index(names, label); i >= 0 {
		return i, nil
	}
	n, err := strconv.Atoi(label)
	if err == nil && (n == sdk.IgnoreIndex || names == nil && n >= 0) {
		return n, nil
	}
	return 0, fmt.Errorf("%q is not one of the classes of the training samples; fix: correct it, or name it in the option classes", label)
}
