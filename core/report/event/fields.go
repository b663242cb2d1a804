package event

// Each event writes its own fields, in the order in which people read them.
// TestRoundTrip compares them with the json tags that Decode uses.

func (e *RunStarted) fields(w *encoder) {
	w.str("name", e.Name)
	w.str("version", e.Version)
	w.str("run_dir", e.RunDir)
	w.optional("continues", e.Continues)
	w.str("config", e.Config)
	w.integer("world_size", int64(e.WorldSize))
	w.str("device", e.Device)
	w.optional("device_reason", e.DeviceReason)
	w.str("backend", e.Backend)
	w.str("precision", e.Precision)
	w.integer("epochs", int64(e.Epochs))
	w.integer("steps_per_epoch", int64(e.StepsPerEpoch))
	w.integer("steps", int64(e.Steps))
	w.integer("restart", int64(e.Restart))
}

func (e *RankStarted) fields(w *encoder) {
	w.str("host", e.Host)
	w.integer("pid", int64(e.PID))
	w.integer("local_rank", int64(e.LocalRank))
	w.optional("gpu", e.GPU)
}

func (e *PhaseChanged) fields(w *encoder) {
	w.str("phase", e.Phase)
	w.optional("detail", e.Detail)
}

func (e *DatasetOpened) fields(w *encoder) {
	w.str("plugin", e.Plugin)
	w.str("source", e.Source)
	w.optional("notice", e.Notice)
	w.integer("train_samples", int64(e.TrainSamples))
	w.integer("test_samples", int64(e.TestSamples))
	w.optional("fingerprint", e.Fingerprint)
	w.list("classes", e.Classes)
}

func (e *PluginStarted) fields(w *encoder) {
	w.str("type", e.Type)
	w.str("name", e.Name)
	w.optional("version", e.Version)
	w.str("path", e.Path)
	w.optional("sha256", e.SHA256)
}

func (e *PlanMade) fields(w *encoder) {
	w.integer("parameters", e.Parameters)
	w.integer("buckets", int64(e.Buckets))
	w.integer("bytes_per_step", e.BytesPerStep)
	w.integer("memory_bytes", e.MemoryBytes)
	w.integer("plan_steps", int64(e.PlanSteps))
	w.integer("epochs", int64(e.Epochs))
	w.integer("steps_per_epoch", int64(e.StepsPerEpoch))
	w.integer("steps", int64(e.Steps))
	w.integer("log_freq", int64(e.LogFreq))
	w.float("took_ms", e.TookMS)
}

func (e *BucketsChosen) fields(w *encoder) {
	w.float("first_mb", e.FirstMB)
	w.float("cap_mb", e.CapMB)
	w.integer("buckets", int64(e.Buckets))
	w.float("exposed_ms", e.ExposedMS)
	w.float("pass_ms", e.PassMS)
	w.float("alpha_us", e.AlphaUS)
	w.float("gb_per_sec", e.GBPerSec)
}

func (e *StepDone) fields(w *encoder) {
	w.integer("step", int64(e.Step))
	w.integer("epoch", int64(e.Epoch))
	w.float("loss", e.Loss)
	w.float("loss_mean", e.LossMean)
	if !(e.Accuracy < 0) {
		w.float("accuracy", e.Accuracy)
	}
	w.float("lr", e.LR)
	w.float("step_ms", e.StepMS)
	w.float("data_ms", e.DataMS)
	w.float("comm_ms", e.CommMS)
	w.integer("samples", int64(e.Samples))
	w.float("samples_per_sec", e.SamplesPerSec)
	if e.GradNorm != 0 {
		w.float("grad_norm", e.GradNorm)
	}
	if e.Scale != 0 {
		w.float("scale", e.Scale)
	}
	if e.Skipped {
		w.boolean("skipped", true)
	}
}

func (e *EvalDone) fields(w *encoder) {
	w.integer("step", int64(e.Step))
	w.integer("epoch", int64(e.Epoch))
	w.float("loss", e.Loss)
	if !(e.Accuracy < 0) {
		w.float("accuracy", e.Accuracy)
	}
	w.integer("samples", int64(e.Samples))
	w.float("took_ms", e.TookMS)
}

func (e *CheckpointSaved) fields(w *encoder) {
	w.integer("step", int64(e.Step))
	w.str("path", e.Path)
	w.integer("bytes", e.Bytes)
	w.float("pause_ms", e.PauseMS)
	w.float("took_ms", e.TookMS)
	if e.Best {
		w.boolean("best", true)
	}
}

func (e *CheckpointLoaded) fields(w *encoder) {
	w.integer("step", int64(e.Step))
	w.str("path", e.Path)
	w.list("notes", e.Notes)
}

func (e *PluginLog) fields(w *encoder) {
	w.str("plugin", e.Plugin)
	w.str("level", e.Level)
	w.str("message", e.Message)
	if e.Total != 0 {
		w.integer("done", e.Done)
		w.integer("total", e.Total)
	}
}

func (e *Warning) fields(w *encoder) {
	w.str("source", e.Source)
	w.str("message", e.Message)
}

func (e *BackendRestarted) fields(w *encoder) {
	w.integer("generation", int64(e.Generation))
	w.integer("step", int64(e.Step))
	w.str("cause", e.Cause)
	w.float("took_ms", e.TookMS)
}

func (e *BackendPlaced) fields(w *encoder) {
	w.str("backend", e.Backend)
	w.boolean("in_process", e.InProcess)
	w.integer("pid", int64(e.PID))
	w.str("reason", e.Reason)
}

func (e *PluginFailed) fields(w *encoder) {
	w.str("type", e.Type)
	w.str("name", e.Name)
	w.integer("pid", int64(e.PID))
	w.str("operation", e.Operation)
	w.boolean("hung", e.Hung)
	w.str("cause", e.Cause)
}

func (e *Refused) fields(w *encoder) {
	w.str("message", e.Message)
	w.list("keys", e.Keys)
	w.list("details", e.Details)
	w.list("help", e.Help)
}

func (e *RankFailed) fields(w *encoder) {
	w.integer("failed_rank", int64(e.FailedRank))
	w.str("host", e.Host)
	w.integer("pid", int64(e.PID))
	w.integer("exit_code", int64(e.ExitCode))
	w.optional("signal", e.Signal)
	w.optional("message", e.Message)
	w.list("last_lines", e.LastLines)
	w.optional("advice", e.Advice)
}

func (e *RankDone) fields(w *encoder) { w.integer("step", int64(e.Step)) }

func (e *RunDone) fields(w *encoder) {
	w.str("status", e.Status)
	w.integer("step", int64(e.Step))
	w.float("loss", e.Loss)
	if !(e.Accuracy < 0) {
		w.float("accuracy", e.Accuracy)
	}
	w.float("total_s", e.TotalS)
	w.integer("exit_code", int64(e.ExitCode))
	w.optional("message", e.Message)
}
