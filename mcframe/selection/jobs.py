"""Tasks one after the other, or in several processes, as they are finished."""

import os
import pickle
import signal
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import whole

__all__ = ["checked_jobs", "joblib", "results_as_finished"]

joblib = Deferred("joblib", "work in several processes")

ResultT = TypeVar("ResultT")


def checked_jobs(jobs: object) -> int:
    """A number of processes as joblib takes it, or a ``ModelError``."""
    found = whole(jobs, "jobs")
    if found == 0:
        raise ModelError("jobs=0 was given; 1 process or more is needed, -1 for one on each core")
    return found


def results_as_finished(
    tasks: Sequence[Callable[[], ResultT]], jobs: int
) -> Generator[tuple[int, ResultT], None, None]:
    """The number of each task with its result, in the order in which they are finished.

    Processes end with this iterator: on Ctrl-C, on an error, and when it is left early.
    """
    if min(joblib.effective_n_jobs(jobs), len(tasks)) <= 1:
        yield from ((k, task()) for k, task in enumerate(tasks))
        return
    # One task a batch: short ones that come together would be lost together.
    parallel = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered", batch_size=1)
    here = os.getpid()
    results = parallel(joblib.delayed(run_numbered)(k, task, here) for k, task in enumerate(tasks))
    try:
        for result in results:  # noqa: UP028 -- that would close it outside of the filter below
            yield result
    except pickle.PicklingError as error:
        # The cause is a traceback as text, whose last line says which object it was.
        reason = str(error.__cause__ or error).strip('\n "').splitlines()[-1]
        raise ModelError(
            f"criterion or path cannot be sent to another process ({reason}); give functions of a"
            " module, or jobs=1"
        ) from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that tasks are cancelled is meant
            results.close()


def run_numbered(number: int, task: Callable[[], ResultT], parent: int) -> tuple[int, ResultT]:
    """A task with its number, deaf to Ctrl-C where it has a process of its own.

    A terminal sends the signal to all processes: the first one of them decides what is kept, and
    ends the others.
    """
    if os.getpid() == parent:
        return number, task()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return number, task()
    finally:
        signal.signal(signal.SIGINT, before)
