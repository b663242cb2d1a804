// Package inference has the commands that use a trained model: generate and predict. core/infer
// does their work; core/app opens data sets and checkpoints for it.
//
// It imports cmd/trainctl/internal, core and plugins/datasets. Start with generate.go.
package inference
