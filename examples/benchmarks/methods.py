"""What every measured method is: a name, what it needs, and one way to run it under a clock.

Needs numpy and scipy alone at import, so that it runs in the interpreter of any peer.
"""

import time
from dataclasses import dataclass, field

import numpy as np
from problems import Instance

__all__ = ["Answer", "Clock", "Method", "Task"]


@dataclass(frozen=True)
class Task:
    """An instance with what a run of it is told.

    ``rank`` is what the reference needs of it; ``goal`` is the objective at which a method that
    has no certificate may stop; ``program`` runs scripts of another language.
    """

    instance: Instance
    iterations: int
    rank: int
    goal: float = 0.0
    max_seconds: float = 600.0
    program: str = "Rscript"


@dataclass
class Clock:
    """Seconds of work; what only monitors is done while it is paused."""

    seconds: float = 0.0
    began: float | None = None
    trace: list = field(default_factory=list)

    def start(self):
        """Go on counting."""
        self.began = time.perf_counter()

    def stop(self):
        """Count no further."""
        if self.began is not None:
            self.seconds += time.perf_counter() - self.began
            self.began = None

    def note(self, objective, bound=-np.inf):
        """The time so far, with an objective that was reached and a bound that is known."""
        running = 0.0 if self.began is None else time.perf_counter() - self.began
        self.trace.append((self.seconds + running, float(objective), float(bound)))


@dataclass
class Answer:
    """Z = left @ right.T with biases by block, or predictions at the held-out positions.

    ``peak_mb`` is given where another process did the work.
    """

    left: np.ndarray | None = None
    right: np.ndarray | None = None
    biases: dict = field(default_factory=dict)
    predicted: np.ndarray | None = None
    peak_mb: float | None = None


class Method:
    """A way to solve an instance, or to predict its held-out entries."""

    name = ""
    package = "mcframe"  # what has to be importable, and the NAME in --python NAME=PATH
    iterations = (0,)  # one measurement each; 0: the method stops by itself
    stoppable = True  # after one iteration, to warm up
    note = ""

    def unsuitable(self, instance):
        """Why an instance is not of this method's kind, or None."""
        raise NotImplementedError

    def solve(self, task, clock):
        """The answer. The clock is started with the data in the form in which a user has them."""
        raise NotImplementedError


def squared_loss_only(instance):
    """The reason of methods that know nothing but squared residuals of a table."""
    if instance.name == "imputation":
        return "squared loss only"
    if instance.mean or set(instance.kinds.tolist()) != {"gaussian"}:
        return "squared loss only"
    return None


def tables_to_impute_only(instance):
    """The reason of methods that fill tables and minimise no objective of this kind."""
    return None if instance.name == "imputation" else "imputes tables, has no such objective"
