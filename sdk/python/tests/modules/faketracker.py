"""A package with the functions of wandb, which writes what it gets to the file FAKETRACKER as JSON lines."""

import json
import os


def _write(**values):
    with open(os.environ["FAKETRACKER"], "a") as f:
        f.write(json.dumps(values) + "\n")


class Run:
    id = "run7"
    summary = type("Summary", (), {"update": staticmethod(lambda values: _write(summary=values))})

    def log(self, values, step=None):
        _write(step=step, **values)

    def finish(self, exit_code=None):
        _write(exit_code=exit_code)


def init(project=None, name=None, config=None, entity=None, id=None, resume=None):
    _write(project=project, name=name, lr=config["optimizer.lr"], id=id, resume=resume)
    return Run()


def finish():
    raise AssertionError("a run has its own")
