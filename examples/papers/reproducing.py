"""One command from its arguments to its exit code: run, store, report."""

import datetime as dt
import shlex
import sys
import time
from collections.abc import Mapping
from concurrent.futures import BrokenExecutor
from pathlib import Path

import attrs

from mcframe.contracts.errors import DataError
from mcframe.runtime.jobs import joblib
from mcframe.runtime.progress import stage
from papers.experiment import Experiment, Trial, summarised
from papers.picture import draw
from papers.registry import find
from papers.report import Report, show
from papers.runner import Failure, Interrupted, attempts, prompt_interrupts
from papers.store import Header, Store

__all__ = ["Run", "reproduce"]

DONE, INCOMPLETE, INTERRUPTED = 0, 1, 130
TINY_TRIALS = 2


@attrs.frozen
class Run:
    """What to reproduce, and how: the arguments of ``python examples/papers``.

    ``trials`` and ``jobs`` are the experiment's and one for each core where they are None;
    ``settings`` and ``parts`` are those that are run, by default all.
    """

    name: str
    trials: int | None = None
    jobs: int | None = None
    seed: int = 0
    resume: bool = False
    folder: str = "reproduction"
    tiny: bool = False
    settings: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()

    def command(self, *, resume: bool = False) -> str:
        """Write the command of this run; how many processes there are does not belong to it."""
        words = ["python", "examples/papers", self.name]
        words += [] if self.trials is None else ["--trials", str(self.trials)]
        words += [] if self.seed == 0 else ["--seed", str(self.seed)]
        words += [] if self.folder == "reproduction" else ["--out", self.folder]
        words += [word for setting in self.settings for word in ("--setting", setting)]
        words += [word for part in self.parts for word in ("--part", part)]
        words += ["--tiny"] * self.tiny + ["--resume"] * resume
        return shlex.join(words)

    def file(self, name: str) -> Path:
        """Return the file of results of that name; table and picture have another ending."""
        return Path(self.folder).expanduser() / f"{name}{'-tiny' * self.tiny}.jsonl"


def reproduce(run: Run) -> int:
    """Run the trials that are missing, store each, print and write the report.

    Returns
    -------
    The exit code: 0 done, 1 where trials failed, 130 where it was interrupted.

    Raises
    ------
    DataError
        No such experiment; results in the way or of another run; data that are missing.
    """
    kind = find(run.name)
    experiment = kind.tiny() if run.tiny else kind()
    experiment.check()
    today = dt.datetime.now(dt.UTC).date().isoformat()
    header = Header.of(experiment, seed=run.seed, tiny=run.tiny, begun=today)
    wanted = wanted_trials(run, experiment)
    store = Store(run.file(header.name), header, resume=run.resume)
    failures: dict[Trial, Failure] = {}
    begun = time.monotonic()
    try:
        with prompt_interrupts():
            compute(experiment, store, wanted, failures, run)
    except Interrupted:
        say_how_to_go_on("interrupted", store, wanted, run)
        return INTERRUPTED
    except BrokenExecutor as error:
        lost = f"a process of a trial died ({error}); fewer processes, --jobs, need less memory"
        say_how_to_go_on(lost, store, wanted, run)
        return INCOMPLETE
    conclude(experiment, store, run, failures, time.monotonic() - begun)
    return INCOMPLETE if failures else DONE


def wanted_trials(run: Run, experiment: Experiment) -> list[Trial]:
    """Return what is asked for; by default the experiment's trials, few where it is tiny."""
    number = run.trials or experiment.default_trials
    if run.tiny and run.trials is None:
        number = min(TINY_TRIALS, number)
    trials = experiment.trials(number)
    for option, given, known in (
        ("--setting", run.settings, dict.fromkeys(trial.setting for trial in trials)),
        ("--part", run.parts, dict.fromkeys(trial.part for trial in trials)),
    ):
        for name in given:
            if name not in known:
                raise DataError(
                    f"{option} {name!r} was given; {run.name} has {', '.join(map(repr, known))}"
                )
    return [
        trial
        for trial in trials
        if (not run.settings or trial.setting in run.settings)
        and (not run.parts or trial.part in run.parts)
    ]


def compute(
    experiment: Experiment,
    store: Store,
    wanted: list[Trial],
    failures: dict[Trial, Failure],
    run: Run,
) -> None:
    """Run the trials that are not stored; store each as it finishes, or keep why it failed."""
    missing = list(store.missing(wanted))
    jobs = run.jobs or cores()
    kept = f", {len(wanted) - len(missing)} of them stored before" if store.results else ""
    processes = "1 process" if jobs == 1 else f"{jobs} processes"
    trials = "1 trial" if len(wanted) == 1 else f"{len(wanted)} trials"
    print(f"{run.name}: {trials}{kept}; {processes}", file=sys.stderr)
    with stage(run.name, shown=True) as here:
        found_so_far = attempts(experiment, missing, seed=run.seed, jobs=jobs)
        for done, (trial, found) in enumerate(found_so_far, 1):
            if isinstance(found, Failure):
                failures[trial] = found
            else:
                store.add(trial, found)
            here.count(done, len(missing), "trials")


def cores() -> int:
    """How many processes can run at once."""
    return int(joblib.cpu_count())


def say_how_to_go_on(what: str, store: Store, wanted: list[Trial], run: Run) -> None:
    """Say what is stored and how the rest is computed."""
    done = len(wanted) - len(list(store.missing(wanted)))
    print(
        f"\nmcframe: {what}; {done} of {len(wanted)} trials are stored in {store.path}; go on"
        f" with\n{run.command(resume=True)}",
        file=sys.stderr,
    )


def conclude(
    experiment: Experiment,
    store: Store,
    run: Run,
    failures: Mapping[Trial, Failure],
    seconds: float,
) -> None:
    """Print and write the table, draw the picture, tell of failures."""
    unfinished = {trial: failure.message for trial, failure in failures.items()}
    report = Report(experiment, store.header, store.results, run.command(), unfinished, seconds)
    place = run.file(run.name)
    picture = place.with_suffix(".png")
    missing = draw(experiment, summarised(report.measures), picture)
    written = place.with_suffix(".md")
    written.write_text(report.markdown(None if missing else picture.name), encoding="utf-8")
    show(report)
    print(f"\ntable: {written}\nresults: {store.path}")
    print(f"no picture: {missing}" if missing else f"picture: {picture}")
    if failures:
        say_what_failed(failures, run)


def say_what_failed(failures: Mapping[Trial, Failure], run: Run) -> None:
    """Name the trials that failed, each error once with the place where it was first raised."""
    by_message: dict[str, list[Trial]] = {}
    for trial, failure in failures.items():
        by_message.setdefault(failure.message, []).append(trial)
    for message, trials in by_message.items():
        first, others = trials[0], len(trials) - 1
        beside = f" and {others} more" * bool(others)
        print(
            f"\n{failures[first].trace.rstrip()}\n"
            f"mcframe: {first.setting}, trial {first.number}{beside}: {message}",
            file=sys.stderr,
        )
    print(
        f"mcframe: {len(failures)} trials failed and are left out, the others are stored and"
        f" reported; try them again with\n{run.command(resume=True)}",
        file=sys.stderr,
    )
