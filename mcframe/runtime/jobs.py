"""Tasks one after the other or in several processes."""

import os
import pickle
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import ModelError

joblib = Deferred("joblib", "work in several processes")

ResultT = TypeVar("ResultT")


def results_as_finished(
    tasks: Sequence[Callable[[], ResultT]], n_jobs: int, what: str
) -> Generator[tuple[int, ResultT], None, None]:
    """Yield the number of each task with its result, in the order in which they are finished.

    The processes end with this iterator: on Ctrl-C, on an error, and when it is closed early.
    ``what`` is the subject of the message if a task cannot be sent to them.
    """
    if min(joblib.effective_n_jobs(n_jobs), len(tasks)) <= 1:
        yield from ((k, task()) for k, task in enumerate(tasks))
        return
    # One task a batch: an interruption would lose all tasks of a batch.
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    parent_pid = os.getpid()
    results = parallel(
        joblib.delayed(run_numbered)(k, task, parent_pid) for k, task in enumerate(tasks)
    )
    try:
        for result in results:  # noqa: UP028 -- that would close it outside of the filter below
            yield result
    except pickle.PicklingError as error:
        # The cause is a traceback as text, whose last line names the object.
        reason = str(error.__cause__ or error).strip('\n "').splitlines()[-1]
        raise ModelError(
            f"{what} cannot be sent to another process ({reason}); give functions of a module, or"
            " n_jobs=1"
        ) from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of tasks that are cancelled
            results.close()
        if sys.exc_info()[0] is not None:
            # The queues of processes that were ended release their semaphores in threads; a
            # program that ends meanwhile reports leaked semaphores.
            for thread in threading.enumerate():
                if thread.name == "QueueFeederThread":
                    thread.join(timeout=1.0)


def run_numbered(number: int, task: Callable[[], ResultT], parent: int) -> tuple[int, ResultT]:
    """Run a task, ignoring Ctrl-C in a worker process, and return its number and result.

    A terminal sends the signal to all processes: the parent decides what is kept, and ends the
    others.
    """
    if os.getpid() == parent:
        return number, task()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        return number, task()
    finally:
        signal.signal(signal.SIGINT, before)
