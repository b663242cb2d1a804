package event

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"path"
	"path/filepath"
	"slices"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
	"github.com/trainctl/trainctl/core/base/pattern"
)

// EvalMetrics are metrics of an evaluation that `[eval] metrics` chooses.
type EvalMetrics struct {
	TopK         int            `json:"top_k,omitempty"` // 0: not chosen; likewise the next field
	TopKAccuracy Number         `json:"top_k_accuracy,omitempty"`
	PerClass     []ClassMetrics `json:"per_class,omitempty"`
}

// ClassMetrics are those of one class against all others. A ratio of 0 to 0 is 0, as in scikit-learn.
type ClassMetrics struct {
	Class     int    `json:"class"`
	Name      string `json:"name,omitempty"`
	Samples   int64  `json:"samples"`   // of the class
	Precision Number `json:"precision"` // share of the predictions of the class that are right
	Recall    Number `json:"recall"`    // share of the samples of the class that are found
	F1        Number `json:"f1"`        // harmonic mean of the two
	Accuracy  Number `json:"accuracy"`  // share of all samples that were correctly predicted to be of the class or not
}

// Evaluation is evaluation.json, the last evaluation of a run in detail, or evaluation-best.json.
type Evaluation struct {
	Schema   int     `json:"schema"`
	Step     int     `json:"step"`
	Epoch    int     `json:"epoch"`
	Samples  int     `json:"samples"`
	Loss     Number  `json:"loss"`
	Accuracy *Number `json:"accuracy,omitempty"`
	EvalMetrics
	Classes   []string      `json:"classes,omitempty"`   // names, by class
	Confusion [][]int64     `json:"confusion,omitempty"` // samples by true class (row) and predicted class (column)
	Worst     []WorstSample `json:"worst,omitempty"`     // the largest loss first
}

// WorstSample is a sample with a large loss.
type WorstSample struct {
	Split       string `json:"split"` // "test", or "train" for a sample held out for validation
	Index       int64  `json:"index"` // in the split
	Class       int    `json:"class"`
	Predicted   int    `json:"predicted"`
	Loss        Number `json:"loss"`
	Probability Number `json:"probability"`     // of the predicted class
	Image       string `json:"image,omitempty"` // path of its picture, from the folder of evaluation.json; "": it has none
	Input       string `json:"input,omitempty"` // of a sample that is no image: the first of its numbers or tokens

	Picture []byte `json:"-"` // PNG, to be written to Image; nil: none
}

// EvaluationFile is the last evaluation in detail, written if [eval] metrics asks for more than sums.
func (d RunDir) EvaluationFile() string { return filepath.Join(d.Path, "evaluation.json") }

// BestEvaluationFile is the best evaluation so far in detail: the one with the highest accuracy, and of those
// with the least loss.
func (d RunDir) BestEvaluationFile() string { return filepath.Join(d.Path, "evaluation-best.json") }

// better reports whether the evaluation is better than the best so far, which is nil at first.
func (e *Evaluation) better(best *Evaluation) bool {
	switch {
	case best == nil || !best.Loss.Finite():
		return true
	case e.Accuracy != nil && best.Accuracy != nil && *e.Accuracy != *best.Accuracy:
		return *e.Accuracy > *best.Accuracy
	}
	return e.Loss < best.Loss
}

// bestEvaluation reads the best evaluation so far; nil: there is none that can be read.
func (d RunDir) bestEvaluation(fsys afero.Fs) *Evaluation {
	b, err := afero.ReadFile(fsys, d.BestEvaluationFile())
	e := &Evaluation{}
	if err != nil || json.Unmarshal(b, e) != nil {
		return nil
	}
	return e
}

// worstFolder has the pictures that evaluation.json names, and pictureName matches their names.
const worstFolder = "worst"

var pictureName = pattern.Lazy{Expr: `^(test|train)-\d+\.png$`}

// WriteEvaluation writes evaluation.json and the pictures that it names, the same as evaluation-best.json if the
// evaluation is the best so far, and then removes pictures that neither of them names. A reader sees either the
// old evaluation or the new one, and whole pictures.
func (d RunDir) WriteEvaluation(fsys afero.Fs, e *Evaluation) error {
	best := d.bestEvaluation(fsys)
	if e.better(best) {
		best = e
	}
	return d.writeEvaluation(fsys, e, best)
}

// ExportEvaluation is WriteEvaluation into a folder that is no run: without evaluation-best.json.
func (d RunDir) ExportEvaluation(fsys afero.Fs, e *Evaluation) error {
	return d.writeEvaluation(fsys, e, &Evaluation{})
}

func (d RunDir) writeEvaluation(fsys afero.Fs, e, best *Evaluation) error {
	e.Schema = Schema
	err := d.writePictures(fsys, e.Worst)
	var b []byte
	if err == nil {
		b, err = json.Marshal(e)
	}
	if err == nil {
		b = append(b, '\n')
		err = durable.Replace(fsys, d.EvaluationFile(), b)
	}
	if err == nil && best == e {
		err = replaceWhole(fsys, d.BestEvaluationFile(), b)
	}
	if err == nil {
		err = d.removePictures(fsys, slices.Concat(e.Worst, best.Worst))
	}
	if err != nil {
		return fmt.Errorf("evaluation.json: %w", err)
	}
	return nil
}

// writePictures writes the pictures of samples, and their paths into the samples.
func (d RunDir) writePictures(fsys afero.Fs, samples []WorstSample) error {
	for i := range samples {
		s := &samples[i]
		if s.Picture == nil {
			continue
		}
		s.Image = path.Join(worstFolder, fmt.Sprintf("%s-%d.png", s.Split, s.Index))
		if err := fsys.MkdirAll(filepath.Join(d.Path, worstFolder), 0o755); err != nil {
			return err
		}
		if err := replaceWhole(fsys, filepath.Join(d.Path, s.Image), s.Picture); err != nil {
			return err
		}
	}
	return nil
}

// replaceWhole writes a file so that readers see the old content or the new one. After a power loss it may be
// empty, unlike one that [durable.Replace] wrote, which waits for the disk.
func replaceWhole(fsys afero.Fs, path string, content []byte) error {
	part := path + ".part"
	err := afero.WriteFile(fsys, part, content, 0o644)
	if err == nil {
		err = fsys.Rename(part, path)
	}
	if err != nil {
		_ = fsys.Remove(part) // the first error is the one to report
	}
	return err
}

// removePictures removes the pictures of other samples.
func (d RunDir) removePictures(fsys afero.Fs, samples []WorstSample) error {
	files, err := afero.ReadDir(fsys, filepath.Join(d.Path, worstFolder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		used := func(s WorstSample) bool { return s.Image == path.Join(worstFolder, f.Name()) }
		if pictureName.Get().MatchString(f.Name()) && !slices.ContainsFunc(samples, used) {
			err = errors.Join(err, fsys.Remove(filepath.Join(d.Path, worstFolder, f.Name())))
		}
	}
	return err
}

// Bounds of the pictures that ReadPictures reads, above what an evaluation writes.
const (
	mostPictureBytes = 4 << 20 // of all together
	mostPictureSide  = 1024    // pixels
)

// ReadPictures reads the pictures that evaluation.json names into its samples. What is missing or no picture of
// reasonable size is left out.
func (d RunDir) ReadPictures(fsys afero.Fs, e *Evaluation) {
	left := int64(mostPictureBytes)
	for i := range e.Worst {
		s := &e.Worst[i]
		if path.Dir(s.Image) != worstFolder || !pictureName.Get().MatchString(path.Base(s.Image)) {
			continue
		}
		file := filepath.Join(d.Path, s.Image)
		info, err := fsys.Stat(file) // reading a pipe could wait for ever
		if err != nil || !info.Mode().IsRegular() || info.Size() > left {
			continue
		}
		b, err := afero.ReadFile(fsys, file)
		if err != nil {
			continue
		}
		if c, err := png.DecodeConfig(bytes.NewReader(b)); err == nil && max(c.Width, c.Height) <= mostPictureSide {
			s.Picture = b
			left -= int64(len(b))
		}
	}
}
