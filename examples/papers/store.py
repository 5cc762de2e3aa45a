"""Results on disk: one file of JSON lines a command, a header first, then a line a trial."""

import json
import math
import subprocess
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from mcframe import __version__
from mcframe.contracts.errors import DataError
from papers.experiment import Experiment, Trial

__all__ = ["Header", "Result", "Store", "commit"]

# What the results depend on.
CODE = ("mcframe", "examples/papers")


@cache
def commit() -> str:
    """The commit of the code that runs, with a plus if it was changed since; "" if none."""
    root = Path(__file__).resolve().parents[2]
    try:
        found, changed = (
            subprocess.run(
                ["git", *words], cwd=root, capture_output=True, text=True, check=True
            ).stdout.strip()
            for words in (
                ("rev-parse", "--short=9", "HEAD"),
                ("status", "--porcelain", "--", *CODE),
            )
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return found + "+" * bool(changed)


@attrs.frozen
class Header:
    """What all results of a file have in common.

    ``version`` and ``commit`` are those of the code that wrote the first of them, ``begun`` the
    date. A trial has its own commit where others were added later.
    """

    name: str
    seed: int
    tiny: bool
    fields: Mapping[str, Any]
    version: str
    commit: str
    begun: str

    @classmethod
    def of(cls, experiment: Experiment, *, seed: int, tiny: bool, begun: str) -> "Header":
        """Describe a run of an experiment."""
        kind: Any = type(experiment)
        values = {field.name: getattr(experiment, field.name) for field in attrs.fields(kind)}
        fields = json.loads(json.dumps(values, default=repr))
        name = experiment.trials_from or experiment.name
        return cls(name, seed, tiny, fields, __version__, commit(), begun)

    def differences(self, other: "Header") -> list[str]:
        """Say in what two runs differ, here and there; dates, versions and commits may."""
        mine, theirs = self.as_text(), other.as_text()
        return [
            f"{key} is {theirs.get(key, 'absent')} there and {mine.get(key, 'absent')} here"
            for key in dict.fromkeys([*mine, *theirs])
            if mine.get(key, "absent") != theirs.get(key, "absent")
        ]

    def as_text(self) -> dict[str, str]:
        """All but date, version and commit as text, the experiment's fields among the rest."""
        values = attrs.asdict(self)
        del values["begun"], values["version"], values["commit"]
        fields = values.pop("fields")
        said = {key: json.dumps(value) for key, value in values.items()}
        return {**said, **{f"the field {key}": json.dumps(v) for key, v in fields.items()}}


@attrs.frozen
class Result:
    """What a trial gave, how long it took, its warnings by kind, and the commit of its code."""

    measures: Mapping[str, float]
    seconds: float = math.nan
    warnings: Mapping[str, int] = attrs.field(factory=dict)
    commit: str = ""


class Store:
    """The results of one command.

    Each result is a line, written at once, so that a process that dies loses no finished trial;
    a line that was being written when it died is left out on reading, and cut off.
    """

    def __init__(self, path: Path, header: Header, *, resume: bool) -> None:
        """Open a file, or begin it.

        Raises
        ------
        DataError
            Where results are there and ``resume`` is not; where they are of another run; where
            a line cannot be read; where the folder cannot be made.
        """
        self.path = path
        self.header = header
        self.results: dict[Trial, Result] = {}
        lines = self.complete_lines()
        if lines and resume:
            self.header = self.same_run(lines[0])
            self.results = dict(self.parse_trial(number, text) for number, text in lines[1:])
            self.cut_off_the_rest()
        elif lines[1:] or (lines and '"measures"' in lines[0][1]):
            raise DataError(
                f"{path} holds results, {len(lines)} lines of them; go on with them by --resume,"
                " keep them and take another folder by --out, or delete the file"
            )
        else:
            self.rewrite()

    def complete_lines(self) -> list[tuple[int, str]]:
        """Read what is there, with line numbers; a last line without its end is left out."""
        if not self.path.exists():
            return []
        *whole, _ = self.path.read_bytes().decode("utf-8", errors="replace").split("\n")
        return [(number, line) for number, line in enumerate(whole, 1) if line.strip()]

    def cut_off_the_rest(self) -> None:
        """Cut off a last line without its end, so that the next one does not follow it."""
        with self.path.open("r+b") as file:
            file.truncate(file.read().rfind(b"\n") + 1)

    def same_run(self, line: tuple[int, str]) -> Header:
        """Read the header, and refuse results of another run."""
        values = self.decode_object(*line)
        names = [field.name for field in attrs.fields(Header)]
        if sorted(values) != sorted(names) or not isinstance(values["fields"], dict):
            expected = json.dumps(attrs.asdict(self.header))
            raise DataError(
                f"{self.path}, line 1, is no header, so that nobody knows what its results are"
                f" of; delete the file or, if they are of this very run, put first: {expected}"
            )
        there = Header(**values)
        differences = self.header.differences(there)
        if differences:
            raise DataError(
                f"{self.path} holds the results of another run: {'; '.join(differences)}; give"
                " the same, or another folder by --out"
            )
        return there

    def parse_trial(self, number: int, text: str) -> tuple[Trial, Result]:
        """Read the line of a trial."""
        values = self.decode_object(number, text)
        try:
            part = str(values.get("part", ""))
            trial = Trial(str(values["setting"]), int(values["number"]), part)
            measures = {str(name): float(value) for name, value in values["measures"].items()}
            seconds = float(values.get("seconds", math.nan))
            known = dict(values.get("warnings", {})), str(values.get("commit", ""))
            return trial, Result(measures, seconds, *known)
        except (AttributeError, KeyError, TypeError, ValueError):
            raise self.unreadable(number, text) from None

    def decode_object(self, number: int, text: str) -> dict[str, Any]:
        """Read a line as a JSON object."""
        try:
            values = json.loads(text)
        except ValueError:
            raise self.unreadable(number, text) from None
        if not isinstance(values, dict):
            raise self.unreadable(number, text)
        return values

    def unreadable(self, number: int, text: str) -> DataError:
        """Make the error for a line that nobody can read."""
        return DataError(
            f"{self.path}, line {number}, is not the result of a trial ({text[:40]!r}); delete"
            " that line, and its trial is computed again"
        )

    def rewrite(self) -> None:
        """Begin the file with its header."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(attrs.asdict(self.header)) + "\n", encoding="utf-8")
        except OSError as error:
            raise DataError(
                f"{self.path} cannot be written ({error.strerror}); take another folder by --out"
            ) from None

    def add(self, trial: Trial, result: Result) -> None:
        """Keep a result, and write it at once. NaN and infinities are written as such."""
        self.results[trial] = result
        line = json.dumps({**attrs.asdict(trial), **attrs.asdict(result)})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    def missing(self, trials: list[Trial]) -> Iterator[Trial]:
        """Yield the trials that are not stored yet, in their order."""
        return (trial for trial in trials if trial not in self.results)
