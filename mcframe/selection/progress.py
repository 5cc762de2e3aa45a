"""How far a run is: a bar on a terminal, a line now and then elsewhere; on standard error."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["duration", "progress"]

# Between two lines, in seconds.
PAUSE = 30.0


def duration(seconds: float) -> str:
    """Write a number of seconds as people say it."""
    if seconds < 10.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


@contextmanager
def progress(name: str, total: int, unit: str) -> Iterator[Callable[[], None]]:
    """Give a function to call after each of so many ``unit``, such as "trials"."""
    if sys.stderr.isatty():
        with bar(name, total, unit) as advance:
            yield advance
    else:
        yield lines(name, total, unit)


@contextmanager
def bar(name: str, total: int, unit: str) -> Iterator[Callable[[], None]]:
    """Draw a bar with the time that is left."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(f"{unit},"),
        TimeElapsedColumn(),
        TextColumn("gone,"),
        TimeRemainingColumn(),
        TextColumn("to go"),
    )
    with Progress(*columns, console=Console(stderr=True)) as shown:
        task = shown.add_task(name, total=total)
        yield lambda: shown.advance(task)


def lines(name: str, total: int, unit: str) -> Callable[[], None]:
    """Print how many are done after the first, at the end, and every half minute.

    What is to go is told from the time since the first, which had processes and compiled code
    to wait for.
    """
    begun = time.monotonic()
    done, first, printed = 0, 0.0, -PAUSE

    def advance() -> None:
        nonlocal done, first, printed
        done += 1
        gone = time.monotonic() - begun
        first = first or gone
        if done < total and gone < printed + PAUSE:
            return
        printed = gone
        left = (gone - first) / max(done - 1, 1) * (total - done)
        ahead = f", about {duration(left)} to go" if 1 < done < total else ""
        said = f"{name}: {done} of {total} {unit} after {duration(gone)}{ahead}"
        print(said, file=sys.stderr, flush=True)

    return advance
