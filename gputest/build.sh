#!/usr/bin/env bash
# Builds bin/gputest.tar.gz: all that gputest/run.sh needs on a machine with a
# GPU, where it builds nothing. Real MNIST goes in if it lies in ../shared/mnist.
set -euo pipefail
cd "$(dirname "$0")/.."
export CGO_ENABLED=0 GOOS=linux GOARCH="${GOARCH:-$(go env GOARCH)}"

stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
mkdir -p "$stage/cuda" "$stage/nccl" "$stage/mnist" bin

go build -ldflags='-s -w' -o "$stage/trainctl" ./cmd/trainctl
go test -c -ldflags='-s -w' -o "$stage/cuda/cuda.test" ./core/engine/cuda
for part in kernels ops; do
	go test -c -ldflags='-s -w' -o "$stage/cuda/$part.test" ./core/engine/cuda/$part
done
go test -c -ldflags='-s -w' -o "$stage/nccl/nccl.test" ./plugins/backend-nccl
cp -r core/engine/cuda/ops/testdata "$stage/cuda/"
cp gputest/run.sh gputest/torch_steps.py gputest/*.toml "$stage/"
if [ -f ../shared/mnist/train-images-idx3-ubyte.gz ]; then
	cp ../shared/mnist/*.gz "$stage/mnist/"
fi
{ git describe --always --dirty 2>/dev/null || echo unknown; } >"$stage/version"

tar -C "$stage" -czf bin/gputest.tar.gz .
ls -lh bin/gputest.tar.gz | awk '{print $9 ": " $5}'
