"""A plugin's main: the handshake, the gRPC service, logs and signals. docs/protocol.md, section 1."""

import base64
import concurrent.futures
import contextlib
import faulthandler
import json
import logging
import os
import signal
import sys
import time

import grpc

from . import _certificate, _debug, _wire
from ._errors import CANCELED, DEADLINE, PROTOCOL, detail
from ._link import open_link
from ._options import published
from ._server import Server, show
from .zz_protocol import CALLS, COOKIE, VERSION

_MAX_MESSAGE = 64 << 20
_CODES = {CANCELED: grpc.StatusCode.CANCELLED, DEADLINE: grpc.StatusCode.DEADLINE_EXCEEDED, PROTOCOL: grpc.StatusCode.INVALID_ARGUMENT}


def serve(*plugins: type):
    """Serves a plugin to the host that started this process, and does not return. If a person
    starts the script, it prints a description and exits with code 1. With the argument --debug,
    or TRAINCTL_DEBUG=1 in the environment, it waits for trainctl instead and prints how to attach
    it, so that it can run in a debugger.

    A script may serve several classes of different kinds, one per process.
    Standard output, standard error and records of ``logging`` reach the user's log.
    """
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        if _debug.wanted():
            _debug.serve(plugins)
        sys.exit(_introduction(plugins))
    handshake = _divert_stdout()
    _set_up_logs()
    kind = os.environ.get("TRAINCTL_PLUGIN_KIND", "")
    try:
        plugin = choose(plugins, kind)
    except LookupError as e:
        sys.exit(e.args[0])
    server = Server(plugin(), open_link())
    server.watch_host()
    _outlive_signals()
    path = os.path.join(os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or "/tmp", f"plugin{os.getpid()}")
    listening, line = listen(server, path, os.environ.get("PLUGIN_CLIENT_CERT", ""))
    os.write(handshake, line.encode())
    server.ended.wait()
    server.finish()
    _leave(listening, path)


def choose(plugins, kind: str) -> type:
    """The class that serves a kind. LookupError if there is none."""
    for p in plugins:
        if p.kind == kind or not kind:
            return p
    raise LookupError(f"this plugin is not a {kind}; it serves {', '.join(p.kind for p in plugins)}")


def _introduction(plugins) -> str:
    lines = []
    for p in plugins:
        info = p.info()
        lines.append(f"This is {info['name']} {info['version']}, a {p.kind} plugin for trainctl: {info['summary']}")
        lines += ["  " + o.line() for o in published(p)]
    lines.append("It is started by trainctl: set plugin in [backend], [dataset], [precision], [[observers]] or [[layer_plugins]] of the TOML file to its path.")
    lines.append("To run it in a debugger, start it with --debug.")
    return "\n".join(lines)


def _divert_stdout() -> int:
    """Keeps the pipe that the host reads for the handshake: print and C libraries write to standard error."""
    handshake = os.dup(1)
    os.dup2(2, 1)
    sys.stdout = os.fdopen(os.dup(2), "w", buffering=1, errors="backslashreplace")
    return handshake


class _Formatter(logging.Formatter):
    """Records as the host reads them: a JSON object in a line."""

    _LEVELS = {"WARNING": "WARN", "CRITICAL": "ERROR"}

    def format(self, record):
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        out = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": self._LEVELS.get(record.levelname, record.levelname), "msg": text,
        }
        out.update({k: v for k, v in vars(record).items() if k in ("done", "total")})
        return json.dumps(out)


def _set_up_logs():
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])


def _outlive_signals():
    """Only the host ends a plugin: batch systems signal every process of a job. SIGQUIT, which the
    host sends to a plugin that hangs, prints the stacks of all threads."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, lambda *_: None)  # caught, because children would inherit an ignored signal
    faulthandler.register(signal.SIGQUIT, file=sys.__stderr__, all_threads=True)


def listen(server: Server, path: str, client: str):
    """Starts the gRPC server on a unix socket and returns it with the line of the handshake. Client
    is the host's certificate; without one the connection is not encrypted."""
    pool = concurrent.futures.ThreadPoolExecutor(max_workers=8)
    g = grpc.server(pool, options=[("grpc.max_receive_message_length", _MAX_MESSAGE), ("grpc.max_send_message_length", _MAX_MESSAGE)])
    g.add_generic_rpc_handlers(_handlers(server))
    certificate = ""
    if client:
        key, pem, der = _certificate.create()
        g.add_secure_port(f"unix:{path}", grpc.ssl_server_credentials([(key, pem)], client.encode(), require_client_auth=True))
        certificate = base64.b64encode(der).decode().rstrip("=")
    else:
        g.add_insecure_port(f"unix:{path}")
    g.start()
    return g, f"1|{VERSION}|unix|{path}|grpc|{certificate}\n"


def _handlers(server: Server):
    def unary(f, request="", reply=""):
        read = (lambda data: _wire.decode(request, data)) if request else None
        write = (lambda values: _wire.encode(reply, values)) if reply else None
        return grpc.unary_unary_rpc_method_handler(f, read, write)

    def end(_request, _context):
        server.leave()
        return b""

    service = {name: unary(_call(getattr(server, name)), *types) for name, types in CALLS.items() if hasattr(server, name)}
    health = {"Check": unary(lambda _request, _context: b"\x08\x01")}  # status: SERVING
    generic = grpc.method_handlers_generic_handler
    return (
        generic("trainctl.plugin.v1.Plugin", service), generic("grpc.health.v1.Health", health),
        generic("plugin.GRPCController", {"Shutdown": unary(end)}),
    )


def _call(f):
    """Turns what a call raises into a status that keeps the kind of error."""
    def handle(request, context):
        left = context.time_remaining()
        try:
            return f(request, 3600.0 if left is None else left)
        except BaseException as e:  # whatever the plugin's code raises, sys.exit included
            show(e)
            values = detail(e)
        code = _CODES.get(values.get("code"), grpc.StatusCode.UNKNOWN)
        status = _wire.encode("google.rpc.Status", {
            "code": code.value[0], "message": values["text"],
            "details": [{"type_url": "type.googleapis.com/trainctl.plugin.v1.Error", "value": _wire.encode("Error", values)}],
        })
        context.set_trailing_metadata((("grpc-status-details-bin", status),))
        context.abort(code, values["text"])
    return handle


def _leave(listening, path: str):
    """Ends the process without waiting for threads of the plugin."""
    listening.stop(0.5).wait(1.0)
    for remove, what in ((os.unlink, path), (os.rmdir, os.path.dirname(path))):
        with contextlib.suppress(OSError):
            remove(what)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
