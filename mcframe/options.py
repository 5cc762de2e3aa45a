"""Checks of the options that ``fit`` and the verbs around it take."""

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

from mcframe.answer import Fit
from mcframe.backends import Budget, Certificate, Record, Start
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import number, whole
from mcframe.model import Problem

# More threads than any machine has processors for: an operating system may refuse to start them.
MOST_THREADS = 1024


def checked_seed(random_state: int | None) -> int:
    """The seed, a fresh one for None, or a ``ModelError`` that names what was given."""
    if random_state is None:
        return secrets.randbits(63)
    if not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ModelError(
            f"random_state={random_state!r} was given; an integer from 0, or None for a fresh"
            " seed, is needed"
        )
    return int(random_state)


def checked_budget(tol: float, max_iter: int, max_seconds: float) -> Budget:
    """The budget, or a ``ModelError`` that names what is wrong with it."""
    if not 0.0 <= number(tol, "tol") < 1.0:
        raise ModelError(
            f"tol={tol!r} was given; a relative gap of at least 0 and below 1 is needed"
        )
    try:
        whole(max_iter, "max_iter", least=0)
    except ModelError:
        raise ModelError(
            f"max_iter={max_iter!r} was given; a whole number of iterations, 0 or more, is needed"
        ) from None
    if max_seconds != np.inf and (max_seconds is None or number(max_seconds, "max_seconds") <= 0):
        raise ModelError(
            f"max_seconds={max_seconds!r} was given; a number above 0 is needed, inf for no limit"
        )
    return Budget(float(tol), int(max_iter), float(max_seconds))


def checked_jobs(n_jobs: int | None) -> int | None:
    """The number of threads, or a ``ModelError`` that names what was given."""
    if n_jobs is None:
        return None
    try:
        threads = whole(n_jobs, "n_jobs", least=-1)
    except ModelError:
        threads = 0
    if threads == -1:
        import joblib

        return int(joblib.cpu_count())
    if 1 <= threads <= MOST_THREADS:
        return threads
    raise ModelError(
        f"n_jobs={n_jobs!r} was given; a whole number of threads, 1 to {MOST_THREADS}, is needed,"
        " -1 for one on each processor, or None for as many as the environment says"
    )


def checked_switch(value: object, name: str) -> bool:
    """True or False, or a ``ModelError`` where it is neither."""
    if not isinstance(value, bool | np.bool_):
        raise ModelError(f"{name}={value!r} was given; True or False is needed")
    return bool(value)


def checked_callback(callback: Callable[[Record], Any] | None) -> Callable[[Record], Any] | None:
    """The callback, or a ``ModelError`` where it is no function."""
    if callback is not None and not callable(callback):
        raise ModelError(f"callback={callback!r} was given; a function of a Record is needed")
    return callback


def checked_start(start: Fit | None, problem: Problem) -> Start | None:
    """The place to begin, or a ``DataError`` where its shape is another.

    A fit of the same model to the same data gives all that is known of it, too.
    """
    if start is None:
        return None
    if not isinstance(start, Fit):
        raise DataError(f"start is a {type(start).__name__}; a Fit is needed")
    if start.latent.shape != problem.shape:
        raise DataError(
            f"start has a latent matrix of {start.latent.shape}, this problem one of"
            f" {problem.shape}; start from a fit of the same blocks and items"
        )
    if start.problem.digest != problem.digest:
        return Start(start.point)
    known = Certificate(start.objective, start.bound, dict(start.effects), start.rounding)
    return Start(start.point, known, start.paused)
