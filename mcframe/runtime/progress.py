"""Progress of long computations: bars in terminals and notebooks, lines elsewhere, and logs.

A verb opens a ``stage``, and the loops below it report to the innermost one. No result depends on
what is shown.
"""

import html
import importlib
import logging
import math
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cache
from threading import RLock, Thread
from typing import Any

import attrs
import numpy as np

LOGGER = logging.getLogger("mcframe")
# The environment variable that hides all bars and lines where it is 0.
VARIABLE = "MCFRAME_PROGRESS"
# Seconds until a bar appears, and between two pictures of it.
DELAY, REFRESH = 2.0, 0.25
# Seconds until the first line of a log, and between two lines; one appears after a pause where
# nobody has asked for it.
FIRST_LINE, PAUSE = 10.0, 30.0
# Below this share of the way to a target the remaining time is not estimated.
LEAST_SHARE_OF_WAY = 0.1
# Terminals with fewer columns have a shorter bar, and either the time gone or the time left.
NARROW = 70


def duration(seconds: float) -> str:
    """A number of seconds in words, such as "1 min 40 s"."""
    if seconds < 10.0:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


@attrs.define(eq=False)
class Progress:
    """A computation that is under way, and what is known of its progress.

    Attributes
    ----------
    title : str
        The names of the computation and of those that contain it.
    shown : bool or None
        The option ``progress`` of the verb.
    whole : Progress or None
        The outermost stage that contains it, whose clock times the lines; None for that one.
    text : str
        The last report, such as "gap 1.2e-04, rank 7".
    step : str
        The step that has begun since then.
    share : float
        The share of the work that is done; 0 where it is not known.
    """

    title: str
    shown: bool | None
    whole: "Progress | None" = None
    text: str = ""
    step: str = ""
    share: float = 0.0
    began: float = attrs.field(factory=lambda: time.monotonic())
    marks: list[tuple[float, float]] = attrs.field(factory=lambda: [(0.0, 0.0)])
    first: float | None = None  # the first of the values that fall
    next_line: float = FIRST_LINE  # seconds
    has_lines: bool = False

    @property
    def outer(self) -> bool:
        """True if no other stage contains it."""
        return self.whole is None

    @property
    def outermost(self) -> "Progress":
        """The stage that contains all others."""
        return self if self.whole is None else self.whole

    @property
    def seconds(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def has_bar(self) -> bool:
        """True if a bar is shown as soon as it has taken long enough."""
        hidden = self.shown is False or (self.shown is None and LOGGER.isEnabledFor(logging.INFO))
        return not hidden and bool(surface())

    @property
    def has_paper(self) -> bool:
        """True if lines are written to standard error, which has no bar."""
        if self.shown is not None or LOGGER.isEnabledFor(logging.INFO):
            return bool(self.shown)
        is_main = multiprocessing.current_process().name == "MainProcess"
        return is_main and not surface() and self.outermost.seconds >= PAUSE

    @property
    def delay(self) -> float:
        """Seconds until the bar appears."""
        return 0.0 if self.shown and self.outer else DELAY

    def report(self, text: str, share: float = 0.0) -> None:
        """Say where the computation is; ``share`` of it is done, which never falls."""
        self.text = text
        if share > self.share:
            self.share = min(share, 1.0)
            self.marks.append((self.seconds, self.share))
        self.begin("")

    def begin(self, step: str, announced: bool = False) -> None:
        """Say which step begins, by a line if one is due or if the step is ``announced``."""
        self.step, clock = step, self.outermost
        if announced or (clock.seconds >= clock.next_line and self.share < 1.0):
            clock.next_line, clock.has_lines = clock.seconds + PAUSE, True
            self.write_line(str(self), on_paper=not self.has_bar)

    def count(self, done: int, total: int, unit: str, rated: bool = False) -> None:
        """Report that so many of the units, such as "paths", are done, and at what rate."""
        rate = ""
        if rated and done and self.seconds > 0.0:
            seconds_per_unit = self.seconds / done
            rate = (
                f", {duration(seconds_per_unit)} each"
                if seconds_per_unit >= 1.0
                else f", {1.0 / seconds_per_unit:.3g} a second"
            )
        self.report(f"{done} of {total} {unit}{rate}", done / max(total, 1))

    def fall(self, value: float, target: float) -> float:
        """The share of the way from the first of some values to a target, on a log scale."""
        if not 0.0 < target < value < np.inf:
            return 1.0 if value <= target else 0.0
        self.first = value if self.first is None else self.first
        whole = max(math.log(self.first / target), 1e-9)
        return max(0.0, 1.0 - math.log(value / target) / whole)

    @property
    def left(self) -> float | None:
        """Seconds that remain at the rate of the second half of the time; None if unknown.

        The first seconds prepare and compile: a small share says nothing of the rate with them.
        Nor does one of the way to a target, which is no count: values that have hardly fallen so
        far may be there in a few steps.
        """
        marks, seconds = self.marks, self.seconds  # another thread may replace the marks
        last, share = marks[-1]
        if self.first is not None and share < LEAST_SHARE_OF_WAY:
            return None
        then, before = [mark for mark in marks if mark[0] <= 0.5 * last][-1]
        if before == 0.0 and share < 0.1 and last < PAUSE:
            then, before = marks[1] if len(marks) > 2 else marks[-1]
        if not before < share < 1.0:
            return None
        left = (1.0 - share) * (last - then) / (share - before) - (seconds - last)
        return left if left > 0.0 else None

    def __str__(self) -> str:
        state = ", ".join(filter(None, [self.text, self.step]))
        state = f"{self.title}: {state}" if state else self.title
        left = self.left
        ahead = "" if left is None else f", about {duration(left)} to go"
        return f"{state} after {duration(self.seconds)}{ahead}"

    def write_line(self, line: str, on_paper: bool) -> None:
        """Write a line to the log, and ``on_paper`` to standard error if ``progress`` is True."""
        LOGGER.info("%s", line)
        hidden = os.environ.get(VARIABLE) == "0" or sys.stderr is None
        if on_paper and self.has_paper and not hidden:
            with suppress(OSError, ValueError):  # standard error was closed
                print(line, file=sys.stderr, flush=True)

    def hide(self) -> None:
        """Remove the bar, so that a warning does not stand beside it."""
        the_board(os.getpid()).remove(self)

    def end(self) -> None:
        """Write the last line of the outermost stage."""
        if self.outer:
            self.write_line(str(self), on_paper=surface() != "notebook")


NOWHERE = Progress("", False, next_line=np.inf)
STAGE: ContextVar[Progress] = ContextVar("progress", default=NOWHERE)


def current() -> Progress:
    """The innermost stage, to which loops report."""
    return STAGE.get()


@contextmanager
def stage(title: str, shown: bool | None = None) -> Iterator[Progress]:
    """A computation whose progress is shown as the option ``progress`` says.

    None is the option of the computation that contains it; without one, a bar appears after two
    seconds in a terminal or a notebook, and elsewhere a line every half minute, unless INFO lines
    are logged.
    """
    outer, whole = STAGE.get(), None
    if outer is not NOWHERE:
        title, shown = f"{outer.title} / {title}", outer.shown if shown is None else shown
        whole = outer.outermost
    inner = Progress(title, shown, whole)
    if inner.shown and inner.outer:
        inner.next_line = 0.0
    elif inner.shown is None and not LOGGER.isEnabledFor(logging.INFO):
        inner.next_line = PAUSE
    token = STAGE.set(inner)
    try:
        if inner.has_bar:
            the_board(os.getpid()).add(inner)
        yield inner
        inner.marks, inner.step = [(0.0, 1.0)], ""  # nothing is left to do
    finally:
        STAGE.reset(token)
        inner.hide()
    inner.end()


def surface() -> str:
    """The place for bars: "notebook", "terminal", or "" where there is none."""
    if os.environ.get(VARIABLE) == "0" or multiprocessing.current_process().name != "MainProcess":
        return ""
    asked = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    if getattr(asked(), "kernel", None) is not None:
        return "notebook"
    dumb = os.environ.get("TERM") in (None, "", "dumb") and os.name != "nt"
    is_terminal = sys.stderr is not None and sys.stderr.isatty() and not dumb
    return "terminal" if is_terminal else ""


@attrs.define(eq=False)
class Board:
    """The bars of all stages of a process, drawn by a thread of its own while there are any."""

    stages: list[Progress] = attrs.field(factory=list)
    bars: Any = None  # what draws them, while some are shown
    watcher: Thread | None = None
    lock: Any = attrs.field(factory=RLock)

    def add(self, progress: Progress) -> None:
        """Watch a stage, whose bar appears after its delay."""
        with self.lock:
            self.stages.append(progress)
            if self.watcher is None:
                self.watcher = Thread(target=self.watch, name="mcframe-progress", daemon=True)
                self.watcher.start()

    def remove(self, progress: Progress) -> None:
        """Stop to show a stage."""
        with self.lock:
            self.stages = [watched for watched in self.stages if watched is not progress]
            if self.bars is not None:
                self.draw()

    def watch(self) -> None:
        """Draw now and then, until no stage is left."""
        while True:
            time.sleep(REFRESH)
            with self.lock:
                self.draw()
                if not self.stages:
                    self.watcher = None
                    return

    def draw(self) -> None:
        """Draw the bars of the stages that have taken long enough, or none."""
        due = [progress for progress in self.stages if progress.seconds >= progress.delay]
        with suppress(OSError, ValueError):  # a terminal that is closed ends no computation
            if due and self.bars is None:
                self.bars = NotebookBars() if surface() == "notebook" else TerminalBars()
            if self.bars is not None:
                self.bars.draw(due)
        if not due:
            self.bars = None


@cache
def the_board(process: int) -> Board:
    """The board of one process, which a child of it does not inherit."""
    return Board()


class TerminalBars:
    """Bars on standard error, which leave no trace."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.live import Live

        self.console = Console(stderr=True)
        # Standard output stays as it is: to replace it in another thread would not be safe.
        self.live = Live(
            console=self.console,
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.live.start()

    def draw(self, stages: list[Progress]) -> None:
        """Draw these bars in the place of those before; without any the terminal is as it was."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        if not stages:
            self.live.stop()
            return
        narrow = self.console.width < NARROW
        table = Table.grid(padding=(0, 1))
        for shrinks in (False, False, True, False):
            table.add_column(no_wrap=not shrinks)
        for progress in stages:
            times, left = [duration(progress.seconds)], progress.left
            if left is not None:
                times = [*times[narrow:], f"{duration(left)} to go"]
            name = "  " * progress.title.count(" / ") + progress.title.rpartition(" / ")[2]
            bar = ProgressBar(
                1.0, progress.share, width=6 if narrow else 20, pulse=progress.share == 0.0
            )
            text = Text(
                ", ".join(filter(None, [progress.text, progress.step])), "", overflow="ellipsis"
            )
            text.no_wrap = True
            table.add_row(Text(name), bar, text, Text(", ".join(times)))
        self.live.update(table, refresh=True)


class NotebookBars:
    """Bars below the cell of a notebook."""

    def __init__(self) -> None:
        display: Any = importlib.import_module("IPython.display").display
        self.handle = display({"text/plain": ""}, raw=True, display_id=True)
        self.last: list[Progress] = []

    def draw(self, stages: list[Progress]) -> None:
        """Draw these bars; at the end the last line stays where ``progress`` is True."""
        lasting = stages or [
            progress for progress in self.last if progress.outer and progress.shown
        ]
        self.last, lines, rows = stages, [str(progress) for progress in lasting], []
        for progress, line in zip(lasting, lines, strict=True):
            bar = f'<progress value="{progress.share:.3f}" max="1"></progress> ' if stages else ""
            rows.append(bar + html.escape(line))
        picture = {"text/plain": "\n".join(lines), "text/html": "<br>".join(rows)}
        self.handle.update(picture, raw=True)
