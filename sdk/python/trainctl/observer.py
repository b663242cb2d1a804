"""Observers: plugins that get the events of a run."""

import dataclasses

from ._plugin import Plugin


@dataclasses.dataclass(frozen=True)
class ObservedRun:
    """The run that an observer is opened for."""

    name: str  # run.name
    dir: str  # the run's directory, absolute; config.toml is there
    config: dict  # every key of the configuration, such as "optimizer.lr", with its value
    resume: str  # what ``open`` returned in the process that this one replaces; "" in the first


class Events(list):
    """Events of a run in their order, each a dict as in events.jsonl: ``event["event"]`` is its
    kind ("step", "eval", "checkpoint_saved", "rank_failed", "run_done"), ``event["ts"]`` its time.
    Numbers that are not finite are None, and members may be missing. ``dropped`` events were
    dropped before these because the observer was slow."""

    dropped = 0


class Observer(Plugin):
    """Gets the events of a run, in one process beside the launcher. An observer that is slow, hangs
    or dies misses events and changes nothing else. An exception means that these events are lost;
    later ones are delivered all the same."""

    kind = "observer"

    def open(self, run: ObservedRun):
        """Called once, when the run begins. Options are attributes by now. What it returns, a str or
        None, is ``run.resume`` of the process that replaces this one if it dies."""

    def observe(self, events: Events):
        """Called with every batch of events."""
        raise NotImplementedError(f"{type(self).__name__} needs a method observe")

    def finish(self, summary: dict):
        """The run has ended, and all of its events were delivered. ``summary`` is summary.json."""
