"""Trials, run here or in processes of their own; one that fails loses no other."""

import signal
import threading
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from mcframe.runtime.jobs import joblib
from mcframe.runtime.machine import blas_alone, thread_limit
from papers.experiment import Experiment, Trial
from papers.store import Result, commit

__all__ = ["Failure", "Interrupted", "attempts", "prompt_interrupts"]

# What libraries tell each other, and no trial can do anything about.
OF_LIBRARIES = (DeprecationWarning, PendingDeprecationWarning)


@attrs.frozen
class Failure:
    """Why a trial gave no result: the error in one line, and where it was raised."""

    message: str
    trace: str


class Interrupted(BaseException):
    """Ctrl-C, under a name that no fit catches.

    ``mcframe.fit`` answers a KeyboardInterrupt with its best point so far, which a trial would
    take for a finished fit and store.
    """


@contextmanager
def prompt_interrupts() -> Iterator[None]:
    """Turn Ctrl-C and a request to terminate into ``Interrupted``, wherever they come."""

    def interrupt(*_: Any) -> None:
        raise Interrupted

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kinds = (signal.SIGINT, signal.SIGTERM)
    before = {kind: signal.signal(kind, interrupt) for kind in kinds}
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)


def attempts(
    experiment: Experiment, trials: Sequence[Trial], *, seed: int, jobs: int
) -> Iterator[tuple[Trial, Result | Failure]]:
    """Run trials, and give each as it finishes.

    One job runs in this process, more in processes of joblib's; linear algebra has one thread in
    both, so that the digits of a result do not depend on ``jobs``.
    """
    if jobs == 1 or len(trials) <= 1:
        for trial in trials:
            yield attempt(experiment, trial, seed)
        return
    # One trial a task: joblib would collect short ones, and they would be stored together.
    with joblib.parallel_config(backend="loky", n_jobs=jobs, inner_max_num_threads=1):
        parallel = joblib.Parallel(return_as="generator_unordered", batch_size=1)
        yield from parallel(
            joblib.delayed(run_undisturbed)(attempt, experiment, trial, seed) for trial in trials
        )


def run_undisturbed(task: Callable[..., Any], *arguments: Any) -> Any:
    """Run in a process of joblib's; Ctrl-C, which reaches all, is the business of their parent."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return task(*arguments)


def attempt(experiment: Experiment, trial: Trial, seed: int) -> tuple[Trial, Result | Failure]:
    """Run one trial; whatever it raises is its failure."""
    begun = time.perf_counter()
    try:
        with single_threaded(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for kind in OF_LIBRARIES:
                warnings.simplefilter("ignore", kind)
            found = experiment.run_part(trial.setting, trial.part, trial.generator(seed))
        measures = {str(name): float(value) for name, value in found.items()}
    except Exception as error:
        return trial, Failure(f"{type(error).__name__}: {error}", traceback.format_exc())
    kinds = Counter(warning.category.__name__ for warning in caught)
    return trial, Result(measures, time.perf_counter() - begun, dict(kinds), commit())


@contextmanager
def single_threaded() -> Iterator[None]:
    """One thread for BLAS and for compiled loops."""
    with thread_limit(1), blas_alone():
        yield
