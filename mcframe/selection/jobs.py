"""Tasks one after the other or in several processes, and their progress."""

import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from mcframe.contracts.deferred import Deferred
from mcframe.contracts.errors import ModelError

joblib = Deferred("joblib", "work in several processes")

ResultT = TypeVar("ResultT")
# Between two lines of progress, in seconds.
PAUSE = 30.0


def results_as_finished(
    tasks: Sequence[Callable[[], ResultT]], n_jobs: int
) -> Generator[tuple[int, ResultT], None, None]:
    """Yield the number of each task with its result, in the order in which they are finished.

    The processes end with this iterator: on Ctrl-C, on an error, and when it is closed early.
    """
    if min(joblib.effective_n_jobs(n_jobs), len(tasks)) <= 1:
        yield from ((k, task()) for k, task in enumerate(tasks))
        return
    # One task a batch: an interruption would lose all tasks of a batch.
    parallel = joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered", batch_size=1)
    here = os.getpid()
    results = parallel(joblib.delayed(run_numbered)(k, task, here) for k, task in enumerate(tasks))
    try:
        for result in results:  # noqa: UP028 -- that would close it outside of the filter below
            yield result
    except pickle.PicklingError as error:
        # The cause is a traceback as text, whose last line names the object.
        reason = str(error.__cause__ or error).strip('\n "').splitlines()[-1]
        raise ModelError(
            f"criterion or path cannot be sent to another process ({reason}); give functions of a"
            " module, or n_jobs=1"
        ) from error
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of tasks that are cancelled
            results.close()


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


def duration(seconds: float) -> str:
    """Write a number of seconds as people say it."""
    if seconds < 10.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@contextmanager
def progress(name: str, total: int, unit: str, shown: bool = True) -> Iterator[Callable[[], None]]:
    """Yield a function to call after each ``unit``, such as "trials", of ``total``.

    It shows the progress on standard error: a bar on a terminal, else a line now and then.
    """
    if not shown:
        yield lambda: None
    elif not sys.stderr.isatty():
        yield lines(name, total, unit)
    else:
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            *Progress.get_default_columns(),
            TextColumn("to go,"),
            MofNCompleteColumn(),
            TextColumn(f"{unit} after"),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task(name, total=total)
            yield lambda: bar.advance(task)


def lines(name: str, total: int, unit: str) -> Callable[[], None]:
    """Return a function that prints the progress at the first unit, the last, and every 30 s.

    The remaining time is estimated from the time since the first unit, which had to wait for
    processes and compiled code.
    """
    begun = time.monotonic()
    times: list[float] = []  # of all units
    printed = -PAUSE

    def advance() -> None:
        nonlocal printed
        times.append(time.monotonic() - begun)
        done, gone = len(times), times[-1]
        if done < total and gone < printed + PAUSE:
            return
        printed = gone
        left = (gone - times[0]) / max(done - 1, 1) * (total - done)
        ahead = f", about {duration(left)} to go" if 1 < done < total else ""
        said = f"{name}: {done} of {total} {unit} after {duration(gone)}{ahead}"
        print(said, file=sys.stderr, flush=True)

    return advance
