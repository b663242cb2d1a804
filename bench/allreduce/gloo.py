"""One rank of gloo's all-reduce, measured as trainctl bench allreduce measures its own ranks.

    trainctl bench allreduce --hosts 2 --nproc 1 --against "python bench/allreduce/gloo.py"

starts it with torchrun's variables, the task as JSON in TRAINCTL_BENCH and the network device in
TRAINCTL_BENCH_DEVICE. Without torch it says so and ends with status 77.
"""
import json
import os
import sys
import time

try:
    import torch
    import torch.distributed as dist
except ImportError as e:
    print(f"torch is not installed for {sys.executable}: {e}", file=sys.stderr)
    sys.exit(77)

WARM_UP, ASK_EVERY, LEAST, RESTED, RESTED_LARGE = 5, 8, 24, 64, 16
DTYPES = [None, torch.float32, torch.float64, torch.float16, torch.bfloat16,
          torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]  # by trainctl's number


def percentile(laps, q):
    return sorted(laps)[int(q * len(laps))]


def everyone(values, op):
    """Values reduced over all ranks."""
    t = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(t, op)
    return t.tolist()


def one(buf, world):
    buf.mul_(1 / world) if buf.is_floating_point() else None  # as a bucket is scaled before its reduction
    begin = time.perf_counter()
    dist.all_reduce(buf)
    return time.perf_counter() - begin


def measure(size, task, world):
    dtype = DTYPES[task["DType"]]
    buf = torch.zeros(size // dtype.itemsize, dtype=dtype)
    for _ in range(WARM_UP):
        one(buf, world)
    laps, end = [], time.perf_counter() + task["Budget"] / 1e9
    while True:
        laps.append(one(buf, world))
        if len(laps) >= LEAST and len(laps) % ASK_EVERY == 0:
            if everyone([float(time.perf_counter() > end)], dist.ReduceOp.MAX)[0] > 0:
                break
    p50, p99 = everyone([percentile(laps, 0.5), percentile(laps, 0.99)], dist.ReduceOp.MAX)
    return {"bytes": size, "backend": "gloo", "nproc": world, "p50_us": p50 * 1e6, "p99_us": p99 * 1e6,
            "algbw_gbps": size / p50 / 1e9, "busbw_gbps": size / p50 / 1e9 * 2 * (world - 1) / world,
            "calls": len(laps), "idle_p50_us": rested(buf, task, world) * 1e6, "hosts": task["Hosts"]}


def rested(buf, task, world):
    """The median of calls that find every process asleep, from the last rank's arrival on."""
    if task["Rest"] <= 0:
        return 0.0
    laps = []
    for _ in range(RESTED if buf.nbytes <= 1 << 20 else RESTED_LARGE):
        time.sleep(task["Rest"] / 1e9)
        laps.append(one(buf, world))
    return percentile(everyone(laps, dist.ReduceOp.MIN), 0.5)


def main():
    task = json.loads(os.environ["TRAINCTL_BENCH"])
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ["TRAINCTL_BENCH_DEVICE"]
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "False"  # rank 0 has the store
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for size in task["Sizes"]:
        result = measure(size, task, dist.get_world_size())
        if dist.get_rank() == 0:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


main()
