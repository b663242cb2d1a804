package event

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/afero"

	"github.com/trainctl/trainctl/core/base/durable"
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

// Evaluation is evaluation.json: the last evaluation of a run in detail.
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
	Probability Number `json:"probability"` // of the predicted class
}

// EvaluationFile is the last evaluation in detail, written if [eval] metrics asks for more than sums.
func (d RunDir) EvaluationFile() string { return filepath.Join(d.Path, "evaluation.json") }

// WriteEvaluation writes evaluation.json; a reader sees either the old content or the new one.
func WriteEvaluation(fsys afero.Fs, path string, e *Evaluation) error {
	e.Schema = Schema
	b, err := json.Marshal(e)
	if err == nil {
		err = durable.Replace(fsys, path, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("evaluation.json: %w", err)
	}
	return nil
}
