"""The plugin's side of the protocol for one instance: docs/protocol.md, sections 3 to 6."""

import collections
import contextlib
import gc
import json
import os
import struct
import sys
import threading
import time
import traceback

from . import backend, dataset, layer, observer, precision
from ._errors import CANCELED, Error, detail, protocol_error
from ._memory import Arena
from ._options import assign
from ._ring import Ring, Submission, operation

_HEARTBEAT = 0.1  # seconds
_CLOSE_BUDGET = 2.0  # seconds to leave when the host is gone
_KEPT_FAILURES = 128
_ARENA_TIMEOUT = 15.0  # seconds for a descriptor to arrive


class Server:
    """Serves one instance. A method without an underscore and with a capital is a call of the
    protocol: it takes the request and the seconds that the host waits, and returns the fields of the reply."""

    def __init__(self, instance, link):
        self._instance, self._link = instance, link
        self._calls = threading.Lock()  # the instance gets one call at a time
        self._arenas: dict[int, Arena] = {}
        self._failures: collections.OrderedDict = collections.OrderedDict()
        self._ring: Ring | None = None
        self._opened = False
        self._aborted = threading.Event()
        self._closing = threading.Lock()
        self._closed, self._close_error = threading.Event(), None
        self._broken = None  # a backend's first failure
        self._filler = self._group = None
        self._layers = layer.Layers()
        self.ended = threading.Event()

    # Calls of any kind.

    def Info(self, request, timeout):
        planes = ["inline"]
        if self._link and os.environ.get("TRAINCTL_DATA_PLANE") != "inline":
            planes.insert(0, "shm")
        return {**self._instance.info(), "data_planes": planes}

    def Start(self, request, timeout):
        if request.data_plane == "inline":
            return {}
        if request.data_plane != "shm" or not self._link or self._ring:
            raise protocol_error(f"data plane {request.data_plane!r} cannot be started")
        self._ring = Ring(self._receive(0, request.control_size, "control"))
        self._ring.beat()
        for work in (self._beat, self._work):
            threading.Thread(target=work, daemon=True, name=work.__name__.strip("_")).start()
        return {}

    def AttachArena(self, request, timeout):
        if not self._link or not request.id or request.device:
            raise protocol_error(f"arena {request.id} cannot be attached")
        arena = self._receive(request.id, request.size, request.name)
        if request.id in self._arenas:
            raise protocol_error(f"arena {request.id} is attached already")
        if isinstance(self._instance, layer.Layer):  # a larger one takes the place of the last, which is unmapped
            self._layers.forget()
            self._arenas.clear()
        self._arenas[request.id] = arena
        return {}

    def Ping(self, request, timeout):
        return {}

    def Failure(self, request, timeout):
        return self._failures.get(request.ticket) or {"text": "the reason is no longer known"}

    def Drain(self, request, timeout):
        end = time.monotonic() + timeout
        while self._ring and not self._ring.idle() and time.monotonic() < end:
            time.sleep(1e-3)
        return {}

    def Shutdown(self, request, timeout):
        self.close()
        self._closed.wait(timeout)
        if self._close_error:
            raise self._close_error
        return {}

    # Calls of one kind.

    def OpenDataset(self, request, timeout):
        with self._opening(dataset.Dataset, request) as d:
            d.open(dataset.Run(request.rank, request.local_rank, request.world_size, request.seed, request.train_classes))
            spec = d.spec()
            self._filler = dataset.Filler(spec)
            reply = spec.message()
            if request.train_classes and (classes := d.train_classes()) is not None:
                reply["train_classes"] = [int(c) for c in classes]
            gc.freeze()  # what is open lasts, and collections between batches need not look at it
            return reply

    def Policy(self, request, timeout):
        with self._opening(precision.Precision, request) as p:
            return p.policy().message()

    def State(self, request, timeout):
        with self._calling(precision.Precision) as p:
            return {"state": {k: float(v) for k, v in p.state().items()}}

    def Load(self, request, timeout):
        with self._calling(precision.Precision) as p:
            p.load(dict(request.state))
        return {}

    def OpenObserver(self, request, timeout):
        with self._opening(observer.Observer, request) as o:
            resume = o.open(observer.ObservedRun(request.name, request.run_dir, json.loads(request.config_json or b"{}"), request.resume))
        return {"resume": "" if resume is None else str(resume)}

    def Observe(self, request, timeout):
        self._must_be_open(observer.Observer)
        events = observer.Events(json.loads(line) for line in request.events)
        events.dropped = request.dropped
        with self._calling(observer.Observer) as o:
            if events:
                o.observe(events)
            if request.summary_json:
                o.finish(json.loads(request.summary_json))
        return {}

    def OpenBackend(self, request, timeout):
        with self._opening(backend.Backend, request) as b:
            self._group = backend.open_group(request)
            b.open(self._group)
        return {}

    def Listen(self, request, timeout):
        with self._calling(backend.Backend) as b:
            return {"endpoint": b.listen()}

    def Connect(self, request, timeout):
        with self._calling(backend.Backend) as b:
            b.connect(list(request.endpoints), timeout)
        return {}

    def DescribeLayer(self, request, timeout):
        with self._calling(layer.Layer) as first:
            reply = self._layers.describe(type(first)(), request)
            self._opened = True
        return reply

    # Operations of the inline data plane.

    def Fill(self, request, timeout):
        self._must_be_open(dataset.Dataset)
        batch, input, target = self._filler.from_message(request)
        with self._calling(dataset.Dataset) as d:
            d.batch(batch.indices, batch)
        return {"input": bytes(input), "target": bytes(target)}

    def Update(self, request, timeout):
        self._must_be_open(precision.Precision)
        with self._calling(precision.Precision) as p:
            s = p.update(request.found_inf)
        return {"scale": s.scale, "skip": s.skip, "skipped": s.skipped}

    def Compute(self, request, timeout):
        self._must_be_open(layer.Layer)
        with self._calling(layer.Layer):
            call, written = self._layers.from_message(request)
            call.make()
        return {"data": bytes(written)}

    def Collective(self, request, timeout):
        self._must_be_open(backend.Backend)
        call, data = backend.make_call(self._group, request, request.channel), bytearray(request.data)
        backend.set_buffer(call, self._group, len(data), lambda: data)
        self._do(call)
        return {"data": bytes(data)}

    # The instance.

    @contextlib.contextmanager
    def _calling(self, kind):
        if not isinstance(self._instance, kind):
            raise protocol_error(f"a {self._instance.kind} plugin does not support this call")
        with self._calls:
            yield self._instance

    @contextlib.contextmanager
    def _opening(self, kind, request):
        with self._calling(kind) as instance:
            assign(instance, request.options_json)
            yield instance
            self._opened = True

    def _must_be_open(self, kind):
        if not isinstance(self._instance, kind) or not self._opened:
            raise protocol_error(f"the {self._instance.kind} is not open")
        if self._aborted.is_set():
            raise Error("the operation was canceled", CANCELED)

    def _receive(self, tag: int, size: int, name: str) -> Arena:
        return Arena(self._link.take(tag, _ARENA_TIMEOUT), size, name)

    # The ring.

    def _beat(self):
        while not self.ended.wait(_HEARTBEAT):
            self._ring.beat()
            if self._ring.aborted():
                self._abort()

    def _work(self):
        ring = self._ring
        try:
            while not self.ended.is_set():
                data = ring.next()
                if data is None:
                    ring.wait()
                    continue
                try:
                    ring.post(False, self._operate(data, ring.seq))
                except BaseException as e:  # whatever the plugin's code raises, sys.exit included, is a failed operation
                    self._keep_failure(ring.ticket, e)
                    ring.post(True)
        except Exception:
            traceback.print_exc()
            self.leave()

    def _keep_failure(self, ticket: int, e: BaseException):
        show(e)
        self._failures[ticket] = detail(e)
        while len(self._failures) > _KEPT_FAILURES:
            self._failures.popitem(last=False)

    def _operate(self, data: bytes, seq: int) -> bytes:
        op = operation(data)
        if op == dataset.FILL:
            if not self._opened or not self._filler or self._aborted.is_set():
                self._must_be_open(dataset.Dataset)
            batch = self._filler.from_ring(data, self._arena)
            with self._calls:
                self._instance.batch(batch.indices, batch)
            return b""
        if op in (layer.FORWARD, layer.BACKWARD):
            self._must_be_open(layer.Layer)
            with self._calls:
                self._layers.from_ring(data, seq, self._arena).make()
            return b""
        sub = Submission(data, seq)
        if sub.op == precision.UPDATE:
            self._must_be_open(precision.Precision)
            with self._calls:
                s = self._instance.update(sub.payload[0] != 0)
            return struct.pack("<dQB", s.scale, s.skipped, s.skip)
        self._must_be_open(backend.Backend)
        call = backend.make_call(self._group, sub, sub.payload[1])
        backend.set_buffer(call, self._group, sub.size, lambda: self._arena(sub.arena).part(sub.offset, sub.size))
        begin = time.time_ns()
        self._do(call)
        return struct.pack("<qq", begin, time.time_ns()) if sub.payload[0] else b""

    def _arena(self, number: int) -> Arena:
        if number not in self._arenas:
            raise protocol_error(f"arena {number} is not attached")
        return self._arenas[number]

    def _do(self, call):
        with self._calls:
            if self._broken is None:
                try:
                    self._instance.do(call)
                except BaseException as e:  # the group is unusable from here on
                    self._broken = e
            if self._broken is not None:
                raise self._broken

    # How it ends.

    def _abort(self):
        if not self._aborted.is_set():
            self._aborted.set()
            if isinstance(self._instance, backend.Backend):
                with contextlib.suppress(Exception):
                    self._instance.interrupt()

    def close(self):
        """Aborts what is running and closes the instance, once, in the background."""
        self._abort()
        if self._closing.acquire(blocking=False):
            threading.Thread(target=self._close, daemon=True, name="close").start()

    def _close(self):
        try:
            with self._calls:
                for instance in self._layers.instances() or [self._instance]:
                    instance.close()
        except BaseException as e:  # the reply of Shutdown
            self._close_error = e
        self._closed.set()

    def leave(self):
        """Lets the process end."""
        self.ended.set()

    def finish(self, budget: float | None = _CLOSE_BUDGET):
        """Closes the instance, within a number of seconds; None is no limit."""
        self.close()
        if not self._closed.wait(budget):
            print(f"{self._instance.info()['name']} did not close within {budget:.0f} s", file=sys.stderr, flush=True)

    def watch_host(self):
        """Leaves when the host is gone: its end of descriptor 3 is closed, or the parent has changed."""
        parent = os.getppid()

        def follow():
            while os.getppid() == parent:
                time.sleep(1.0)
            self.leave()

        def receive():
            self._link.run()
            self.leave()

        for work in (follow, receive) if self._link else (follow,):
            threading.Thread(target=work, daemon=True, name=work.__name__).start()


def show(e: BaseException):
    """Prints where the plugin's own code failed; errors of this package say it themselves."""
    if not isinstance(e, Error):
        traceback.print_exception(e)
