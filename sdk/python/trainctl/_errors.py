"""Errors with a meaning in the plugin protocol. Any other exception is reported with its type, text and place."""

import os
import traceback

from .zz_protocol import COLLECTIVES

# Codes of errors that the protocol itself uses: docs/protocol.md, section 3.
PROTOCOL = "protocol"
CANCELED = "canceled"
DEADLINE = "deadline"


class Error(Exception):
    """An error for the user. Its text names the place and the fix."""

    code = ""

    def __init__(self, text: str, code: str = ""):
        super().__init__(text)
        if code:
            self.code = code

    def detail(self) -> dict:
        """The fields of the protocol's Error message."""
        return {"text": str(self), "code": self.code}


class CorruptData(Error):
    """Raise it in :meth:`Dataset.batch` for a damaged or missing file: the job ends at once, with exit code 2."""

    code = "dataset.corrupt"


class EndOfData(Error):
    """Raise it in :meth:`Dataset.batch` if this rank's epoch ends before the batch; see ``ddp.uneven``."""

    code = "dataset.end"

    def __init__(self, text: str = "the data set has no more samples in this epoch"):
        super().__init__(text)


class Unavailable(Error):
    """This machine lacks something that the plugin needs. The job ends with exit code 3."""

    code = "unavailable"


class OptionError(Error):
    """An option whose value only the plugin can reject. ``help`` says what to write instead."""

    def __init__(self, key: str, problem: str, help: str = ""):
        super().__init__(f"{key}: {problem}" + (f"; {help}" if help else ""))
        self.problem = {"key": key, "detail": problem, "help": help}

    def detail(self) -> dict:
        return {"text": str(self), "problems": {"problems": [self.problem]}}


class StallError(Error):
    """A collective whose deadline passed. ``missing`` are the ranks that did not arrive."""

    def __init__(self, call, missing, waited: float = 0.0):
        self.missing = sorted(missing)
        bucket = f" in bucket {call.bucket}" if call.bucket >= 0 else ""
        after = f" after {waited:.3f}s" if waited > 0 else ""
        who = "no rank is known to be missing, so the collective itself hangs"
        if self.missing:
            who = f"rank{'s' * (len(self.missing) > 1)} {', '.join(map(str, self.missing))} did not arrive"
        super().__init__(f"{call.op} #{call.seq} stalled{bucket}{after}: {who}")
        number = next(n for n, c in COLLECTIVES.items() if c.name == call.op)
        self.fields = {"seq": call.seq, "op": number, "bucket": call.bucket, "missing": self.missing, "waited_ns": int(waited * 1e9)}

    def detail(self) -> dict:
        return {"text": str(self), "stall": self.fields}


class MismatchError(Error):
    """Ranks that called different collectives; ``mine`` and ``its`` are ``str(call)`` of both."""

    def __init__(self, rank: int, mine: str, peer: int, its: str):
        super().__init__(f"ranks called different collectives: rank {rank} {mine}, rank {peer} {its}")
        self.fields = {"rank": rank, "peer": peer, "mine": mine, "its": its}

    def detail(self) -> dict:
        return {"text": str(self), "mismatch": self.fields}


class PeerError(Error):
    """Another rank that is gone or misbehaves."""

    def __init__(self, peer: int, cause: str, seq: int = 0):
        where = f" in collective #{seq}" if seq else ""
        super().__init__(f"rank {peer}{where}: {cause}")
        self.fields = {"peer": peer, "seq": seq, "cause": cause}

    def detail(self) -> dict:
        return {"text": str(self), "peer": self.fields}


def protocol_error(text: str) -> Error:
    """The host sent something that the protocol does not allow."""
    return Error("protocol: " + text, PROTOCOL)


def detail(e: BaseException) -> dict:
    """The fields of the protocol's Error message for any exception."""
    if isinstance(e, Error):
        fields = e.detail()
    else:
        frames = traceback.extract_tb(e.__traceback__)
        place = f" at {os.path.basename(frames[-1].filename)}:{frames[-1].lineno} in {frames[-1].name}" if frames else ""
        fields = {"text": f"{type(e).__name__}: {e}{place}"}
    fields["text"] = fields["text"].encode(errors="backslashreplace").decode()  # names of files may not be UTF-8
    return fields
