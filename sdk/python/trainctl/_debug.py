"""A plugin that a person has started, perhaps in a debugger: docs/protocol.md, section 8."""

import contextlib
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
import threading

from ._link import Link
from .zz_protocol import VERSION


def wanted() -> bool:
    """Whether the person who has started the script wants to attach trainctl to it."""
    return os.environ.get("TRAINCTL_DEBUG", "0") not in ("", "0") or "--debug" in sys.argv[1:]


def serve(plugins):
    """Serves hosts, each with an instance of its own, until Ctrl-C."""
    logging.basicConfig(level=logging.INFO)
    threading.settrace(sys.gettrace())  # pdb started with -m traces the main thread alone; calls come in others
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    room = len(tempfile.gettempdir()) < 60  # the path of a socket has at most 103 bytes
    directory = tempfile.mkdtemp(prefix="trainctl-debug-", dir=None if room else "/tmp")  # nobody else may enter it
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            path = os.path.join(directory, "attach")
            listener.bind(path)
            listener.listen()
            _invite(plugins, path)
            number = 0
            while True:
                connection, _ = listener.accept()
                number += 1
                threading.Thread(target=_session, args=(plugins, connection, os.path.join(directory, f"plugin{number}")), daemon=True, name=f"host {number}").start()
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _invite(plugins, path: str):
    entries = {}
    for p in plugins:
        info = p.info()
        entries[info["name"]] = {"Protocol": "grpc", "ProtocolVersion": VERSION, "Pid": os.getpid(), "Addr": {"Network": "unix", "String": path}}
        print(f"{p.kind} plugin {info['name']} {info['version']} waits for trainctl in process {os.getpid()}.", file=sys.stderr)
    print("In another terminal, before trainctl run, plugins test or plugins trace:", file=sys.stderr)
    print(f"export TRAINCTL_REATTACH='{json.dumps(entries)}'", flush=True)
    print("For a job with several ranks, start one process for each, and make their entries a list. Ctrl-C ends this one.", file=sys.stderr, flush=True)


def _session(plugins, connection: socket.socket, path: str):
    """Serves one host, which has connected, until it closes the plugin or is gone."""
    from ._serve import choose, listen
    from ._server import Server

    line = b""
    while not line.endswith(b"\n"):
        part = connection.recv(4096)  # nothing follows before it is answered
        if not part:
            return
        line += part
    host = json.loads(line)
    try:
        plugin = choose(plugins, host["kind"])
    except LookupError as e:
        with connection:
            connection.sendall(f"{e.args[0]}\n".encode())
        return
    print(f"process {host['pid']} has attached the {plugin.kind} plugin {plugin.info()['name']}", file=sys.stderr, flush=True)
    answer = connection.dup()
    link = Link(connection.detach())
    server = Server(plugin(), link)
    listening, line = listen(server, path, "")

    def receive():
        link.run()
        server.leave()

    threading.Thread(target=receive, daemon=True, name="receive").start()
    with answer:
        answer.sendall(line.encode())
        server.ended.wait()
        server.finish(None)  # whenever the debugger lets it
        listening.stop(0.5).wait()
        with contextlib.suppress(OSError):
            answer.shutdown(socket.SHUT_RDWR)
    print(f"process {host['pid']} has closed the {plugin.kind} plugin {plugin.info()['name']}", file=sys.stderr, flush=True)
