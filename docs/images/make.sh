#!/usr/bin/env bash
# Makes the pictures in this folder: trains the main job twice and takes them from its reports, in
# Chromium. It takes about a minute, and writes nothing else.
set -euo pipefail
cd "$(dirname "$0")/../.."
source=$PWD
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/trainctl" ./cmd/trainctl
run() {
	"$dir/trainctl" -C "$dir" run "$source/configs/mnist-ddp.toml" --progress none --set metrics.timeline=true \
		--set 'eval.metrics=["accuracy", "per_class", "confusion", "worst"]' "$@"
}
run
run --set optimizer.lr=0.002 --set optimizer.momentum=0.5
"$dir/trainctl" -C "$dir" report mnist-ddp/1 -o one.html
"$dir/trainctl" -C "$dir" report mnist-ddp/1 mnist-ddp/2 -o two.html
TRAINCTL_PICTURES=$dir bash e2e/testdata/browser/run.sh -run TestPictures
mv "$dir"/*.png docs/images/
