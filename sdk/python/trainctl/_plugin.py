"""What the plugins of all kinds have in common."""

import inspect

from ._options import published


class Plugin:
    """The base of all kinds. A class sets ``version``, and ``name`` and ``summary`` where they are
    not the class's name and the first line of its docstring."""

    kind = ""
    name = ""
    version = "0.1.0"
    summary = ""

    @classmethod
    def info(cls) -> dict:
        """The fields of the protocol's InfoReply."""
        return {
            "kind": cls.kind, "name": cls.name or _words(cls.__name__), "version": cls.version,
            "summary": cls.summary or (inspect.getdoc(cls) or "").split("\n")[0].rstrip("."),
            "options": [o.message() for o in published(cls)],
        }

    def close(self):
        """The last call, also after an error."""


def _words(name: str) -> str:
    """The name of a class as plugins are named: TwoSpirals is two-spirals."""
    return "".join(f"-{c.lower()}" if c.isupper() and i else c.lower() for i, c in enumerate(name)).replace("_", "-")
