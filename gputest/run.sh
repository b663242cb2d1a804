#!/usr/bin/env bash
# Checks and measures trainctl on a machine with an NVIDIA GPU, and prints one
# table, each line when it is known. It unpacks what gputest/build.sh has made and
# builds nothing:
#
#   run.sh [gputest.tar.gz] [part…]
#
# Parts, all of them without any and in this order: device convnet resnet50 mnist
# nccl allreduce ranks steps kernels plans. Without a GPU, a library or torch, the
# lines say why they were skipped. The exit code is 1 if a line failed, and 0 otherwise.
#
#   PYTHON           a Python with torch, for the other side of comparisons, and
#                    for the CUDA libraries that came with it: python3
#   GPUTEST_OUT      a folder that gets table.txt, doctor.log and log.txt, which
#                    has what every command said
#   GPUTEST_CACHE    where compiled kernels are kept for the next call
#   GPUTEST_SECONDS  when to be done, 540. A part leaves 20 s to each one after it;
#                    those that have no time left are skipped
#   GPUTEST_SMALL    set: a few steps of a small model and all-reduces of 1 MiB, to
#                    try this script itself
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
parts=(device convnet resnet50 mnist nccl allreduce ranks steps kernels plans)

usage() { echo "run.sh: $*" >&2; exit 2; }
tarball=""
if [ $# -gt 0 ] && [[ ! " ${parts[*]} " == *" $1 "* ]]; then tarball=$1; shift; fi
for part in "$@"; do [[ " ${parts[*]} " == *" $part "* ]] || usage "no part $part: ${parts[*]}"; done
[ $# -eq 0 ] || parts=("$@")
[ -z "${GPUTEST_OUT:-}" ] || { mkdir -p "$GPUTEST_OUT" && GPUTEST_OUT=$(cd "$GPUTEST_OUT" && pwd); } || exit 2

work=$(mktemp -d)
running=""
finish() { [ -z "$running" ] || kill "$running" 2>/dev/null; rm -rf "$work"; }
trap finish EXIT
trap 'exit 130' INT TERM
if [ -n "$tarball" ] || [ ! -x "$here/trainctl" ]; then
	tarball=${tarball:-$here/../bin/gputest.tar.gz}
	[ -f "$tarball" ] || usage "no $tarball: build it with gputest/build.sh"
	tar -C "$work" -xzf "$tarball" || exit 2
else
	cp -r "$here/." "$work/" || exit 2
fi
cd "$work" || exit 2
out=${GPUTEST_OUT:-$work} budget=${GPUTEST_SECONDS:-540} reserve=20 after=0
trainctl=$work/trainctl python=${PYTHON:-python3}
export XDG_CACHE_HOME="${GPUTEST_CACHE:-$work/cache}" TRAINCTL_DATA="$work"

failed=0
say() { printf '%s\n' "$*" | tee -a "$out/table.txt"; }
row() { say "$(printf '%-8s %-38s %-8s %s' "$4" "$1" "$3" "$2")"; [ "$4" != failed ] || failed=1; }
skip() { row "$1" "${*:2}" "" skipped; }

# within LIMIT COMMAND… runs a command to its end or its limit, in seconds; what
# it says is kept in $log. It fails with 124 at its limit and 125 if there is no time left.
log=$work/out.log
within() {
	local limit=$1 left=$((budget - SECONDS - reserve * after)) rc over=124 why="did not end within $1 s"
	shift
	[ -z "${GPUTEST_SMALL:-}" ] || limit=$((2 * limit)) # that may be on a busy machine
	[ "$left" -gt "$limit" ] || { limit=$left over=125 why="no time left of $budget s: give run.sh this part alone, $part"; }
	[ "$limit" -gt 5 ] || { echo "$why" >"$log"; return 125; }
	timeout -k 10 "$limit" "$@" >"$log" 2>&1 &
	running=$!
	wait "$running"
	rc=$?
	running=""
	[ -z "${GPUTEST_OUT:-}" ] || { echo "[$part] \$ $*"; cat "$log"; echo "[exit code $rc]"; } >>"$out/log.txt"
	[ "$rc" = 124 ] || [ "$rc" = 137 ] || return "$rc"
	echo "$why" >>"$log"
	return "$over"
}
# reason is why the command before did not work: the line that says so, or its last.
reason() {
	local text
	text=$(grep -aE 'error:|panic:|did not end within|no time left' "$log" | tail -n 1)
	[ -n "$text" ] || text=$(grep -av '^[[:space:]=-]*$' "$log" | tail -n 1)
	cut -c 1-160 <<<"${text#"${text%%[![:space:]|]*}"}"
}
# broken NAME [RC] is the line of a command that did not work.
broken() {
	if [ "${2:-1}" = 125 ]; then skip "$1" "$(reason)"; return; fi
	tail -n 30 "$log" >&2
	row "$1" "$(reason)" "" failed
}

# leaves counts the tests that passed and have none below them: one whose parts were all skipped has passed, too.
leaves() {
	awk '/^ *--- (PASS|SKIP|FAIL): / { name[$3] = $2; n = split($3, part, "/"); path = part[1]; for (i = 2; i <= n; i++) { above[path] = 1; path = path "/" part[i] } }
		END { for (t in name) passed += name[t] == "PASS:" && !(t in above); print passed + 0 }' "$1"
}
# suite NAME FOLDER BINARY TEST LIMIT runs a test of a test binary.
suite() {
	local rc passed skipped
	within "$5" env -C "$2" "./$3" -test.run "$4" -test.v -test.timeout "$5s"
	rc=$?
	passed=$(leaves "$log") skipped=$(grep -aE '_test.go:[0-9]+: ' "$log" | head -n 1 | sed 's/.*_test.go:[0-9]*: //' | cut -c 1-150)
	if [ "$rc" = 125 ] || [ "$rc" = 124 ]; then broken "$1" "$rc"
	elif [ "$rc" != 0 ]; then
		tail -n 40 "$log" >&2
		row "$1" "$(grep -aE -- '--- FAIL|^panic:|^fatal error:|SIG[A-Z]+:' "$log" | tail -n 1 | sed 's/^ *//' | cut -c 1-100 | grep . || reason)" "" failed
	elif grep -aq 'no tests to run' "$log"; then row "$1" "$3 has no test $4" "" failed
	elif [ "$passed" = 0 ]; then skip "$1" "${skipped:-nothing ran}"
	else row "$1" "$passed passed" "" ok; fi
}

at_least() { awk -v v="$1" -v t="$2" 'BEGIN { exit !(v + 0 >= t + 0) }'; }
verdict() { if at_least "$1" "$2"; then echo ok; else echo below; fi; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (b > 0) printf "%.2f", a / b; else print 0 }'; }

# train CONFIG LIMIT [--set …] trains on the GPU; $summary is then the run's.
small=() time=1500ms size=25
if [ -n "${GPUTEST_SMALL:-}" ]; then
	small=(--set 'dataset={plugin="synthetic", options={shape=[1, 8, 8], classes=10, train_samples=100, test_samples=8}}'
		--set 'model={layers=[{type="conv2d", out_channels=4, kernel_size=3}, {type="batchnorm2d"}, {type="relu"}, {type="flatten"}, {type="linear", out_features=10}]}'
		--set train.per_rank_batch=4 --set train.max_steps=12 --set train.epochs=1) time=100ms size=1
fi
train() {
	rm -rf runs
	within "$2" "$trainctl" run "$1" --progress none "${@:3}" "${small[@]}" || return
	summary=$(echo runs/*/latest/summary.json)
	if [ ! -f "$summary" ] || ! tr -d '\n' <"$summary" | grep -q '"device": *"cuda"'; then
		echo "error: the summary tells of no run on a GPU" >>"$log"
		return 1
	fi
}
# number KEY is a number of the run's summary, 0 where it is not there.
number() { { tr -d '\n' <"$summary" | grep -o "\"$1\": *[0-9.eE+-]*" || echo 0; } | head -n 1 | sed 's/.*: *//' | awk '{ printf $1 < 1000 ? "%.4g" : "%.0f", $1 }'; }

# accuracy NAME TARGET CONFIG LIMIT [--set …] trains and looks at how well.
accuracy() {
	local got target=$2
	[ ${#small[@]} = 0 ] || target=0
	train "$3" "$4" "${@:5}" || { broken "$1" $?; return; }
	got=$(number accuracy)
	row "$1" "$got" ">= $target" "$(verdict "$got" "$target")"
}

# against NAME CONFIG LIMIT MODEL TARGET compares samples per second with PyTorch's,
# which are measured also where ours cannot be.
against() {
	local ours=0 theirs quotient rc
	train "$2" "$3"
	rc=$?
	if [ "$rc" != 0 ]; then broken "$1" "$rc"
	else
		ours=$(number samples_per_sec)
		if [ "$ours" = 0 ]; then row "$1" "the summary has no samples per second" "" failed; else row "$1" "$ours samples/s" "" ok; fi
	fi
	within "$3" "$python" torch_steps.py "$4"
	rc=$? theirs=$(grep -aE '^[0-9.]+$' "$log" | tail -n 1)
	if [ "$rc" != 0 ] || [ -z "$theirs" ]; then skip "$1, PyTorch" "$(reason)"; return; fi
	row "$1, PyTorch" "$theirs samples/s" "" ok
	[ "$ours" != 0 ] || return
	quotient=$(ratio "$ours" "$theirs")
	row "$1, ratio" "$quotient" ">= $5" "$(verdict "$quotient" "$5")"
}

# bench ISOLATION KEY is a number of the all-reduce that was measured last.
bench() { grep -a "\"isolation\":\"$1\"" "$log" | grep -o "\"$2\": *[0-9.]*" | head -n 1 | sed 's/.*: *//'; }
round() { awk '{ printf "%.0f", $1 }'; }
mebibytes() { awk -v b="${1:-0}" 'BEGIN { printf "%.0f MiB", b / 1048576 }'; }

# reduce NAME RANKS [--set …] measures all-reduces of $size MiB in either place.
reduce() {
	local plugin inside quotient
	within 150 "$trainctl" bench allreduce --backend nccl --nproc "$2" --sizes "${size}MiB" --budget "$time" --json "${@:3}"
	case $? in 0) ;; 3) skip "$1" "$(reason)"; return ;; *) broken "$1" $?; return ;; esac
	plugin=$(bench isolated p50_us | round) inside=$(bench inproc p50_us | round)
	if [ -z "$plugin" ] || [ -z "$inside" ]; then row "$1" "not both places were measured" "" failed; return; fi
	quotient=$(ratio "$inside" "$plugin")
	row "$1, plugin" "$plugin µs, $(mebibytes "$(bench isolated device_bytes)") of device memory" "" ok
	row "$1, in process" "$inside µs, $(mebibytes "$(bench inproc device_bytes)") of device memory" "" ok
	row "$1, ratio" "$quotient" ">= 0.95" "$(verdict "$quotient" 0.95)"
}

# over NAME [--set …] trains one epoch of MNIST over NCCL. Where there are several
# ranks their gradients have to stay on the GPU.
over() {
	local detour
	accuracy "$1" 0.95 mnist.toml 150 --set train.epochs=1 --set run.deterministic=false --set backend.plugin=nccl "${@:2}"
	detour=$(grep -ahso 'gradients are reduced in host memory[^"]*' runs/*/latest/events.jsonl | head -n 1)
	[ -z "$detour" ] || row "$1, its way" "$detour" "" failed
}
shared=(--set launch.nproc_per_node=2 --set run.allow_shared_device=true --set train.per_rank_batch=50)

have() { grep -Eq "^ *ok +$1" "$out/doctor.log"; }
lacks() { grep -E "^ *[a-z]+ +$1 " "$out/doctor.log" | head -n 1 | sed "s/^ *[a-z]* *$1 *//" | cut -c 1-120; }

part_kernels() { suite "kernels compile" cuda kernels.test '^TestKernelsCompile$' 180; }
part_plans() { suite "cuDNN plans for an H100" cuda ops.test '^TestPlansFor|^TestLayoutOf' 180; }
part_device() { suite "device conformance" cuda cuda.test '^TestConformance$' 300; }
part_nccl() {
	suite "NCCL conformance" nccl nccl.test '^TestRealGPUs$/^(isolated|inproc)$' 240
	suite "NCCL conformance, 2 on a GPU" nccl nccl.test '^TestRealGPUs$/^shared$' 120
}
part_mnist() {
	if [ -f mnist/train-images-idx3-ubyte.gz ] || [ ${#small[@]} != 0 ]; then accuracy "MNIST, accuracy" 0.985 mnist.toml 200
	else skip "MNIST, accuracy" "real MNIST is not in the tarball"; fi
}
part_convnet() { against "ConvNet b100" convnet.toml 150 convnet 5; }
part_resnet50() { against "ResNet-50 224 bf16 b256" resnet50.toml 250 resnet50 1; }
part_allreduce() {
	have NCCL || { skip "all-reduce $size MiB" "NCCL: $(lacks NCCL)"; return; }
	reduce "all-reduce $size MiB, 1 rank" 1
	reduce "all-reduce $size MiB, 2 on a GPU" 2 --set backend.options.allow_shared_device=true
}
part_ranks() {
	if [ ! -f mnist/train-images-idx3-ubyte.gz ] && [ ${#small[@]} = 0 ]; then skip "MNIST over NCCL" "real MNIST is not in the tarball"; return; fi
	accuracy "MNIST, 2 ranks on a GPU, TCP" 0.95 mnist.toml 150 --set train.epochs=1 "${shared[@]}"
	have NCCL || { skip "MNIST over NCCL" "NCCL: $(lacks NCCL)"; return; }
	over "MNIST over NCCL, isolated" --set 'backend.options.isolation="isolated"'
	over "MNIST over NCCL, in process" --set 'backend.options.isolation="inproc"'
	if grep -aEq '^ *ok +NCCL +2\.([3-9][0-9]|[1-9][0-9][0-9])' "$out/doctor.log"; then
		over "MNIST over NCCL, 2 on a GPU" --set 'backend.options.isolation="isolated"' --set backend.options.allow_shared_device=true "${shared[@]}"
	else skip "MNIST over NCCL, 2 on a GPU" "NCCL $(lacks NCCL | cut -d, -f1) is older than 2.30"; fi
}
part_steps() {
	local name speed
	within 200 env -C cuda ./cuda.test -test.run '^$' -test.bench Step -test.benchtime 3s || { broken "steps alone" $?; return; }
	grep -aq 'ns/op' "$log" || { skip "steps alone" "$(grep -aE '_test.go:[0-9]+: ' "$log" | head -n 1 | sed 's/.*_test.go:[0-9]*: //' | cut -c 1-120)"; return; }
	while read -r name speed; do row "steps alone, $name" "$speed samples/s" "" ok; done < <(
		awk '/ns\/op/ { for (i = 2; i <= NF; i++) if ($i == "samples/s") { sub(/^BenchmarkStep\//, "", $1); printf "%s %.0f\n", $1, $(i - 1) } }' "$log")
}

# The Python that has torch has CUDA libraries too: trainctl looks for them with
# the python3 on PATH, so this one goes first. Reading them once takes long from a
# cold disk, longer than doctor waits, so torch does it before.
if found=$(command -v "$python"); then
	mkdir -p "$work/bin" # not a link: a virtual environment is known by its own path
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$found" >"$work/bin/python3"
	chmod +x "$work/bin/python3"
	PATH="$work/bin:$PATH"
fi
timeout -k 5 120 "$python" -c 'import torch; torch.cuda.is_available()' >/dev/null 2>&1
timeout -k 10 90 "$trainctl" doctor >"$out/doctor.log" 2>&1
sed -n '/^gpu/,$p' "$out/doctor.log" >&2
gpu=yes
have 'device [0-9]' || gpu="no GPU: $(grep -E 'CUDA driver|devices|did not answer' "$out/doctor.log" | grep -v '^ *ok' | head -n 1 | sed 's/^ *[a-z]* *//; s/   */: /' | cut -c 1-120)"

: >"$out/table.txt"
[ -z "${GPUTEST_OUT:-}" ] || : >"$out/log.txt"
say "trainctl $(cat version), $(date -u +%Y-%m-%d), $(timeout 20 nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null | head -n 1)"
grep -E '^ *[a-z]+ +(CUDA driver|NVRTC|cuBLASLt|cuDNN|NCCL|device [0-9]+|fit|MPS) ' "$out/doctor.log" | tee -a "$out/table.txt"
say "$(printf '%-8s %-38s %-8s %s' verdict measure target result)"
after=${#parts[@]}
for part in "${parts[@]}"; do
	after=$((after - 1))
	case $part in kernels | plans) needs="" ;; *) needs=gpu ;; esac
	if [ -n "$needs" ] && [ "$gpu" != yes ]; then skip "$part" "$gpu"; else "part_$part"; fi
done
exit "$failed"
