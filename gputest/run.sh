#!/usr/bin/env bash
# Checks and measures trainctl on a machine with an NVIDIA GPU, and prints one
# table. It unpacks what gputest/build.sh has made and builds nothing:
#
#   run.sh [gputest.tar.gz]
#
# PYTHON is a Python with torch for the other side of the comparisons. Without a
# GPU, or without torch, the lines say why they were skipped. The exit code is 1
# if a line failed, and 0 otherwise; nothing runs longer than its limit.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ $# -gt 0 ] || [ ! -x "$here/trainctl" ]; then
	tarball=${1:-$here/../bin/gputest.tar.gz}
	[ -f "$tarball" ] || { echo "run.sh: no $tarball: build it with gputest/build.sh" >&2; exit 2; }
	tar -C "$work" -xzf "$tarball" || exit 2
else
	cp -r "$here/." "$work/"
fi
cd "$work" || exit 2
trainctl=$work/trainctl python=${PYTHON:-python3}
export XDG_CACHE_HOME="$work/cache" TRAINCTL_DATA="$work"

rows=() failed=0
row() { rows+=("$(printf '%-8s %-28s %-8s %s' "$4" "$1" "$3" "$2")"); [ "$4" != failed ] || failed=1; }
skip() { row "$1" "${*:2}" "" skipped; }
note() { echo "$*" >&2; }

# within LIMIT COMMAND… runs a command to its end or its limit, in seconds; what
# it says is kept for the reason of a failure.
within() { timeout -k 10 "$1" "${@:2}" >out.log 2>&1; }
last() { grep -v '^[[:space:]]*$' out.log | tail -n 1 | cut -c 1-120; }

# suite NAME FOLDER BINARY TEST LIMIT runs a test of a test binary.
suite() {
	note "$1"
	if (cd "$2" && within "$5" "./$3" -test.run "$4" -test.v -test.timeout "$5s"); then
		local passed
		passed=$(grep -c -- '--- PASS' "$2/out.log")
		if [ "$passed" -gt 0 ]; then row "$1" "$passed passed" "" ok
		elif grep -q 'no tests to run' "$2/out.log"; then skip "$1" "this version has no such test"
		else skip "$1" "$(cd "$2" && reason)"; fi
	else
		tail -n 40 "$2/out.log" >&2
		row "$1" "$(cd "$2" && grep -- '--- FAIL' out.log | tail -n 1 | cut -c 1-60)" "" failed
	fi
}
reason() { grep -A2 -- '--- SKIP\|=== RUN' out.log | grep -o '_test.go:[0-9]*: .*' | head -n 1 | cut -d' ' -f2- | cut -c 1-150; }

# at_least VALUE TARGET compares numbers.
at_least() { awk -v v="$1" -v t="$2" 'BEGIN { exit !(v >= t) }'; }
verdict() { if at_least "$1" "$2"; then echo ok; else echo below; fi; }

# train CONFIG LIMIT [--set …] trains and prints the summary's path.
train() {
	rm -rf runs
	within "$2" "$trainctl" run "$1" --progress none "${@:3}" && ls runs/*/latest/summary.json 2>/dev/null
}
number() { tr -d '\n' <"$1" | grep -o "\"$2\": *[0-9.eE+-]*" | head -n 1 | sed 's/.*: *//' | awk '{ printf $1 < 1000 ? "%.4g" : "%.0f", $1 }'; }

# against NAME CONFIG LIMIT MODEL TARGET compares samples per second with PyTorch's.
against() {
	note "$1"
	local summary ours theirs ratio
	summary=$(train "$2" "$3") || { tail -n 20 out.log >&2; row "$1" "$(last)" "" failed; return; }
	ours=$(number "$summary" samples_per_sec)
	row "$1" "$ours samples/s" "" ok
	if ! theirs=$(timeout -k 10 "$3" "$python" torch_steps.py "$4" 2>torch.log); then
		skip "$1, PyTorch" "$(tail -n 1 torch.log | cut -c 1-90)"
		return
	fi
	row "$1, PyTorch" "$theirs samples/s" "" ok
	ratio=$(awk -v a="$ours" -v b="$theirs" 'BEGIN { printf "%.2f", a / b }')
	row "$1, ratio" "$ratio" ">= $5" "$(verdict "$ratio" "$5")"
}

# reduce ISOLATION is the median time of an all-reduce of 25 MiB, in µs.
reduce() {
	within 120 "$trainctl" bench allreduce --backend nccl --nproc 1 --sizes 25MiB --json --set "backend.options.isolation=$1" &&
		grep -o '"p50_us": *[0-9.]*' out.log | head -n 1 | sed 's/.*: *//'
}

# plugin_memory watches the device memory of the plugin's process while MNIST trains over NCCL.
plugin_memory() {
	local name="device memory of the plugin" most=0 now pid
	grep -Eq '^ *ok +NCCL' doctor.log || { skip "$name" "NCCL was not found"; return; }
	command -v nvidia-smi >/dev/null || { skip "$name" "nvidia-smi was not found"; return; }
	rm -rf runs
	timeout -k 10 180 "$trainctl" run mnist.toml --progress none --set backend.plugin=nccl --set train.epochs=1 >out.log 2>&1 &
	local run=$!
	while kill -0 "$run" 2>/dev/null; do
		for pid in $(pgrep -g 0 -f 'backend-nccl|plugin.*nccl' 2>/dev/null); do
			now=$(nvidia-smi --query-compute-apps=pid,used_memory --format=csv,noheader,nounits | awk -F', ' -v p="$pid" '$1 == p { print $2 }')
			[ -n "$now" ] && [ "$now" -gt "$most" ] && most=$now
		done
		sleep 0.2
	done
	if ! wait "$run"; then row "$name" "$(last)" "" failed
	elif [ "$most" = 0 ]; then skip "$name" "the driver lists no memory of the plugin's process (a container may hide it)"
	else row "$name" "$most MiB" "" ok; fi
}

"$trainctl" doctor >doctor.log 2>&1
sed -n '/^gpu/,$p' doctor.log >&2
gpu=yes
grep -Eq '^ *ok +device [0-9]' doctor.log || gpu="no GPU: $(grep -E 'CUDA driver|devices' doctor.log | grep -v '^ *ok' | head -n 1 | sed 's/^ *[a-z]* *//; s/   */: /' | cut -c 1-120)"

suite "kernels compile" cuda cuda.test '^TestKernelsCompile$' 180
suite "cuDNN plans for an H100" cuda cuda.test '^TestPlansFor|^TestLayoutOf' 120
suite "device conformance" cuda cuda.test '^TestConformance$' 600
suite "NCCL conformance" nccl nccl.test '^TestRealGPUs$' 300

if [ "$gpu" = yes ]; then
	note "MNIST"
	if [ ! -f mnist/train-images-idx3-ubyte.gz ]; then
		skip "MNIST, accuracy" "real MNIST is not in the tarball"
	elif summary=$(train mnist.toml 300); then
		accuracy=$(number "$summary" accuracy)
		row "MNIST, accuracy" "$accuracy" ">= 0.985" "$(verdict "$accuracy" 0.985)"
	else
		tail -n 20 out.log >&2
		row "MNIST, accuracy" "$(last)" "" failed
	fi
	against "ConvNet b100" convnet.toml 300 convnet 5
	against "ResNet-50 224 bf16 b256" resnet50.toml 600 resnet50 1
	note "all-reduce"
	if ! grep -Eq '^ *ok +NCCL' doctor.log; then
		skip "all-reduce 25 MiB" "$(grep -E ' NCCL ' doctor.log | head -n 1 | sed 's/^ *[a-z]* *NCCL *//')"
	elif plugin=$(reduce isolated) && [ -n "$plugin" ]; then
		row "all-reduce 25 MiB, plugin" "$plugin µs" "" ok
		if inside=$(reduce inproc) && [ -n "$inside" ]; then
			row "all-reduce 25 MiB, in process" "$inside µs" "" ok
			ratio=$(awk -v a="$inside" -v b="$plugin" 'BEGIN { printf "%.2f", a / b }')
			row "all-reduce 25 MiB, ratio" "$ratio" ">= 0.95" "$(verdict "$ratio" 0.95)"
		else
			skip "all-reduce 25 MiB, in process" "$(last)"
		fi
	else
		row "all-reduce 25 MiB, plugin" "$(last)" "" failed
	fi
	plugin_memory
	note "steps"
	(cd cuda && within 300 ./cuda.test -test.run '^$' -test.bench Step -test.benchtime 3s && grep ns/op out.log >&2)
else
	for name in "MNIST, accuracy" "ConvNet b100" "ResNet-50 224 bf16 b256" "all-reduce 25 MiB" "device memory of the plugin"; do
		skip "$name" "$gpu"
	done
fi

echo "trainctl $(cat version), $(date -u +%Y-%m-%d), $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)"
grep -E 'CUDA driver|NVRTC|cuBLASLt|cuDNN|NCCL|device [0-9]' doctor.log | grep -v mend
printf '%-8s %-28s %-8s %s\n' verdict measure target result
printf '%s\n' "${rows[@]}"
exit "$failed"
