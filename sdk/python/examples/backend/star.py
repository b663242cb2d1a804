#!/usr/bin/env python3
"""A backend that sends every buffer to rank 0, which computes the result and sends it back: the
simplest that works. It gets slower with every rank."""

import hashlib
import hmac
import json
import selectors
import socket
import struct
import time

import numpy as np
import trainctl

COMBINE = {"sum": np.add, "avg": np.add, "min": np.minimum, "max": np.maximum, "prod": np.multiply}


class Star(trainctl.Backend):
    """an example: everything through rank 0"""

    ops = ("all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier")
    dtypes = ("f32", "f64", "u8", "i32", "i64")
    determinism = "bitwise"

    def open(self, group):
        self.group, self.listener, self.conns, self.interrupted = group, None, {}, False

    def listen(self):
        if self.group.rank != 0:
            return b"-"
        self.listener = socket.create_server((self.group.master_addr, 0))
        return json.dumps(self.listener.getsockname()[:2]).encode()

    def connect(self, endpoints, timeout):
        if self.group.rank != 0:
            conn = socket.create_connection(tuple(json.loads(endpoints[0])), timeout)
            conn.sendall(self.credential(self.group.rank))
            self.conns[0] = conn
            return
        deadline = time.monotonic() + timeout
        while len(self.conns) < self.group.world_size - 1:
            self.listener.settimeout(max(deadline - time.monotonic(), 0.001))
            try:
                self.admit(self.listener.accept()[0])
            except TimeoutError:
                missing = sorted(set(range(1, self.group.world_size)) - set(self.conns))
                raise trainctl.Error(f"ranks {missing} did not connect within {timeout:.0f} s") from None

    def admit(self, conn):
        """Keeps a connection that sends a rank's credential; others are closed."""
        conn.settimeout(5)
        try:
            card = receive_exactly(conn, 36)
        except OSError:
            return
        rank = struct.unpack_from("<I", card)[0]
        if 0 < rank < self.group.world_size and rank not in self.conns and hmac.compare_digest(card, self.credential(rank)):
            self.conns[rank] = conn

    def credential(self, rank):
        """The rank, and a proof that it knows the job's secret."""
        who = f"star {self.group.job_id} {self.group.generation} {self.group.epoch} {rank}"
        return struct.pack("<I", rank) + hmac.digest(self.group.secret, who.encode(), hashlib.sha256)

    def do(self, call):
        self.set_deadline(call)
        try:
            self.serve(call) if self.group.rank == 0 else self.take_part(call)
        except trainctl.Error:
            raise
        except TimeoutError:
            raise trainctl.StallError(call, [0]) from None
        except OSError as e:
            raise trainctl.PeerError(0, str(e), call.seq) from None

    def set_deadline(self, call):
        left = call.seconds_left()
        for conn in self.conns.values():  # rank 0 knows which ranks are missing, and tells them at its deadline
            conn.settimeout(left if left is None else left + (1.0 if self.group.rank else 0.001))

    def take_part(self, call):
        """A collective on every rank but 0: the call, a verdict, the buffer, a verdict, the result."""
        conn = self.conns[0]
        send(conn, str(call))
        raise_verdict(call, receive(conn))
        conn.sendall(data(call.buffer))
        raise_verdict(call, receive(conn))
        receive_into(conn, data(call.buffer))

    def serve(self, call):
        """A collective on rank 0."""
        calls, failed = self.gather(call, receive)
        self.announce(call, judge(call, {0: str(call), **calls}, failed))
        buffers, failed = {rank: call.buffer for rank in self.conns}, {}  # a barrier has no bytes to wait for
        if call.buffer.size:
            buffers, failed = self.gather(call, lambda conn: receive_array(conn, call.buffer))
        self.announce(call, judge(call, {}, failed))
        try:
            self.compute(call, [call.buffer] + [buffers[r] for r in range(1, self.group.world_size)])
        except Exception:
            self.close()  # the others wait for results
            raise
        for rank, conn in self.conns.items():
            try:
                conn.sendall(data(call.buffer))
            except OSError as e:
                failed[rank] = e
        if failed:
            self.announce(call, judge(call, {}, failed))  # ranks that have their results receive this in their next call

    def gather(self, call, read):
        """What every rank sends, and the errors of those that do not, in the order of arrival."""
        found, failed, selector = {}, {}, selectors.DefaultSelector()
        for rank, conn in self.conns.items():
            selector.register(conn, selectors.EVENT_READ, rank)
        while len(found) + len(failed) < len(self.conns) and not any(not isinstance(e, TimeoutError) for e in failed.values()):
            ready = selector.select(call.seconds_left())
            for key, _ in ready:
                try:
                    found[key.data] = read(key.fileobj)
                except OSError as e:
                    failed[key.data] = e
                selector.unregister(key.fileobj)
            if not ready:
                failed.update({r: TimeoutError() for r in self.conns if r not in found and r not in failed})
        return found, failed

    def announce(self, call, verdict):
        """Sends a verdict to all ranks, and raises it here."""
        if self.interrupted:
            verdict = {"kind": "gone", "rank": 0, "cause": "its call was canceled"}
        for conn in self.conns.values():
            try:
                if verdict:
                    conn.settimeout(1)
                send(conn, verdict)
            except OSError:
                pass  # the rank is gone, or finds out by itself
        raise_verdict(call, verdict)

    def compute(self, call, buffers):
        """Runs the operation: afterwards call.buffer is the result of all ranks, in rank order."""
        out = call.buffer
        if call.op in ("all_reduce", "reduce_scatter"):
            self.reduce(call, buffers)
        elif call.op == "broadcast":
            out[:] = buffers[call.root]
        elif call.op == "all_gather":
            for r, buffer in enumerate(buffers):
                out[r * call.count:][:call.count] = buffer[r * call.count:][:call.count]
        elif call.op != "barrier":
            raise trainctl.Error(f"{call}: unknown operation")

    def reduce(self, call, buffers):
        if call.dtype not in self.dtypes:
            raise trainctl.Error(f"{call}: this type cannot be reduced")
        out = call.buffer
        with np.errstate(all="ignore"):
            for buffer in buffers[1:]:
                COMBINE[call.reduce](out, buffer, out=out)
            if call.reduce == "avg":
                out /= out.dtype.type(len(buffers))

    def interrupt(self):
        self.interrupted = True
        for conn in self.conns.values():
            conn.shutdown(socket.SHUT_RD)

    def close(self):
        for conn in [getattr(self, "listener", None), *getattr(self, "conns", {}).values()]:
            if conn:
                conn.close()


def judge(call, calls, failed):
    """Compares the calls with rank 0's. A rank that is gone comes before a different call, and that
    before a late rank."""
    for rank, e in failed.items():
        if not isinstance(e, TimeoutError):
            return {"kind": "gone", "rank": rank, "cause": str(e)}
    for rank, text in calls.items():
        if text != calls[0]:
            return {"kind": "differ", "rank": rank, "calls": [calls[0], text]}
    return {"kind": "stalled", "ranks": sorted(failed)} if failed else {}


def raise_verdict(call, verdict):
    kind = verdict.get("kind")
    if kind == "differ":
        raise trainctl.MismatchError(0, verdict["calls"][0], verdict["rank"], verdict["calls"][1])
    if kind == "stalled":
        raise trainctl.StallError(call, verdict["ranks"])
    if kind == "gone":
        raise trainctl.PeerError(verdict["rank"], verdict["cause"], call.seq)


def data(array):
    return memoryview(array).cast("B") if array.size else memoryview(b"")


def send(conn, value):
    text = json.dumps(value).encode()
    conn.sendall(struct.pack("<I", len(text)) + text)


def receive(conn):
    size = struct.unpack("<I", receive_exactly(conn, 4))[0]
    if size > 16384:
        raise OSError("it sent an invalid message")
    return json.loads(receive_exactly(conn, size))


def receive_exactly(conn, size):
    out = bytearray(size)
    receive_into(conn, memoryview(out))
    return bytes(out)


def receive_array(conn, like):
    return np.frombuffer(receive_exactly(conn, like.nbytes), like.dtype)


def receive_into(conn, memory):
    while memory:
        n = conn.recv_into(memory)
        if n == 0:
            raise OSError("the connection was closed")
        memory = memory[n:]


trainctl.serve(Star)
