package main

import (
	"strings"
	"testing"
	"time"
)

// Flags that would measure another job than they name, or none, are refused by name.
func TestFlagsAreChecked(t *testing.T) {
	good := options{ranks: []int{2, 4}, hosts: 2, batch: 8, rounds: 1, predict: true, latency: time.Microsecond, bandwidth: 1, perHost: 1}
	if err := good.check(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*options){
		"-ranks []":          func(o *options) { o.ranks = nil },
		"-ranks [4 0]":       func(o *options) { o.ranks = []int{4, 0} },
		"-ranks 3 -hosts 2":  func(o *options) { o.ranks = []int{4, 3} },
		"-batch 0":           func(o *options) { o.batch = 0 },
		"-rounds 0":          func(o *options) { o.rounds = 0 },
		"-hosts -1":          func(o *options) { o.hosts = -1 },
		"-per-host 0":        func(o *options) { o.perHost = 0 },
		"-bandwidth 0":       func(o *options) { o.bandwidth = 0 },
		"-latency -1\u00b5s": func(o *options) { o.latency = -time.Microsecond },
	} {
		o := good
		change(&o)
		if err := o.check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}
