package checkpoint

import (
	"math"
	"testing"
	"time"
)

// The members of manifest.json come in the order of FORMAT.md, flat: how the
// struct is made of parts does not show in the file.
func TestManifestIsFlatAndInOrder(t *testing.T) {
	m := (&Snapshot{
		Step: 7, Epoch: 1, Applied: 6, WorldSize: 2, Precision: "fp16", Parameters: 4, Seed: 42, CreatedBy: "v1",
		Sampler: Sampler{Seed: 42, Epoch: 1, Offset: 8, WorldSize: 2, Batch: 4, OrderHash: "ab", Shuffle: true},
		Dataset: Dataset{Plugin: "mnist", Source: "files", Fingerprint: "cd"},
		Plugins: []Plugin{{Type: "backend", Name: "tcp", Path: "/bin/tcp"}},
		Scaler:  map[string]float64{"scale": 65536}, Metrics: map[string]float64{"train.loss": math.Inf(1)}, Config: "[run]\n",
	}).manifest()
	m.CreatedAt, m.Save, m.Prefix, m.NonFinite = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), 3, "module.", "fc.weight"
	m.Best = &Best{Metric: "eval.loss", Value: 0.5, Step: 4}
	m.Files[ModelFile] = File{Size: 9, SHA256: "ef"}
	got, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != wantManifest {
		t.Errorf("the file is\n%s\nwant\n%s", got, wantManifest)
	}
}

const wantManifest = `{
  "format": "trainctl-checkpoint",
  "version": 1,
  "created_by": "v1",
  "created_at": "2026-01-02T03:04:05Z",
  "save": 3,
  "step": 7,
  "epoch": 1,
  "applied_steps": 6,
  "world_size": 2,
  "precision": "fp16",
  "parameters": 4,
  "prefix": "module.",
  "seed": 42,
  "sampler": {
    "seed": 42,
    "epoch": 1,
    "offset": 8,
    "world_size": 2,
    "batch": 4,
    "order_hash": "ab",
    "shuffle": true,
    "drop_last": false
  },
  "dataset": {
    "plugin": "mnist",
    "source": "files",
    "fingerprint": "cd"
  },
  "plugins": [
    {
      "type": "backend",
      "name": "tcp",
      "path": "/bin/tcp"
    }
  ],
  "scaler": {
    "scale": 65536
  },
  "metrics": {
    "train.loss": "+Inf"
  },
  "best": {
    "metric": "eval.loss",
    "value": 0.5,
    "step": 4
  },
  "non_finite": "fc.weight",
  "config": "[run]\n",
  "config_sha256": "8c64eee8764f9ddd72b50da342904806557898602cdc084b072fbddf1d5c4315",
  "files": {
    "model.safetensors": {
      "size": 9,
      "sha256": "ef"
    }
  },
  "sha256": "c3321c327c4f218224f58c85d124054df0da275278f5dbf92e94821e04379b1e"
}
`
