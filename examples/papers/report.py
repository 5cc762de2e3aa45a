"""The table of an experiment: what the paper prints beside what was measured."""

import datetime as dt
import math
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

import attrs
from scipy.stats import t as student

from mcframe.runtime.progress import duration
from papers.experiment import Experiment, Measured, Published, Summary, Trial, summarised
from papers.store import Header, Result

__all__ = [
    "OPEN",
    "Report",
    "Row",
    "Tally",
    "as_printed",
    "rows_of",
    "ruled",
    "show",
    "table_of",
    "tally",
    "with_deviation",
]

# Differences of more standard errors than this are set off.
FAR = 2.0
NOTHING = ""
OPEN = "open"


@attrs.frozen
class Row:
    """One measure of one setting; None where nobody measured it, or published it.

    ``cause`` is why it is far from the paper, ``aside`` the measure whose figure of the paper
    stands here once more, since this one is computed as a cause says.
    """

    setting: str
    measure: str
    published: Published | None
    measured: Measured | None
    cause: str = NOTHING
    aside: str = NOTHING

    @property
    def distance(self) -> float | None:
        """Ours - theirs in standard errors, None where it is not known."""
        if self.published is None or self.measured is None:
            return None
        return self.measured.distance(self.published)

    @property
    def chance(self) -> float:
        """The probability of being far if paper and reproduction agree, by Student's t."""
        assert self.published is not None
        assert self.measured is not None
        known = self.published.deviation is not None and self.published.trials is not None
        theirs = (self.published.trials or 0) - 1 if known else 0
        degrees = self.measured.trials - 1 + theirs
        return float(2.0 * student.sf(FAR, degrees)) if degrees else math.nan

    @property
    def is_far(self) -> bool:
        """Whether it differs by more than chance explains easily."""
        return self.distance is not None and abs(self.distance) > FAR

    def cells(self, *, beside: bool) -> tuple[str, ...]:
        """Return the line as text; ``beside`` says whether the paper has figures at all."""
        ours = NOTHING if self.measured is None else with_deviation(self.measured)
        trials = NOTHING if self.measured is None else str(self.measured.trials)
        if not beside:
            return self.setting, self.measure, ours, trials
        theirs = NOTHING if self.published is None else as_printed(self.published)
        distance = NOTHING if self.distance is None else f"{self.distance:+.1f}"
        return self.setting, self.measure, theirs, ours, trials, distance, self.cause


def rows_of(experiment: Experiment, summary: Summary) -> list[Row]:
    """Return the rows: settings in their order, what was measured, then what was not."""
    published, found = experiment.published(), []
    for setting in experiment.settings():
        everything = summary.get(setting, {})
        measured = {name: each for name, each in everything.items() if experiment.shows(name)}
        theirs = [name for place, name in published if place == setting and experiment.shows(name)]
        asides = {
            other: measure
            for measure in theirs
            for cause in experiment.causes
            if (other := cause.alternative(setting, measure))
        }
        for name in dict.fromkeys([*measured, *theirs]):
            aside = asides.get(name, NOTHING) if name not in theirs else NOTHING
            figure = published.get((setting, aside or name))
            row = Row(setting, name, figure, measured.get(name), aside=aside)
            if row.is_far and not aside:
                row = attrs.evolve(row, cause=cause_of(experiment, row, everything))
            found.append(row)
    return found


def cause_of(experiment: Experiment, row: Row, measured: Mapping[str, Measured]) -> str:
    """Return the first cause that holds of a row far from the paper, OPEN where none does.

    A cause that names a measure holds where that measure is near the paper. One of fewer trials
    has to be at most half as far, since it is near by its larger error alone otherwise.
    """
    assert row.published is not None
    assert row.measured is not None
    error = abs(row.measured.mean - row.published.mean)
    for cause in experiment.causes:
        other = cause.alternative(row.setting, row.measure)
        if other == "":
            return cause.name
        if other is not None and other in measured:
            alternative = measured[other]
            distance = alternative.distance(row.published)
            is_nearer = 2.0 * abs(alternative.mean - row.published.mean) <= error
            if (
                distance is not None
                and abs(distance) <= FAR
                and (is_nearer or alternative.trials >= row.measured.trials)
            ):
                return cause.name
    return OPEN


@attrs.frozen
class Tally:
    """How many cells a paper prints, and how ours compare with them."""

    cells: int
    computed: int
    compared: int
    within: int
    explained: int
    open: int

    def __add__(self, other: "Tally") -> "Tally":
        pairs = zip(attrs.astuple(self), attrs.astuple(other), strict=True)
        return Tally(*(one + two for one, two in pairs))


def tally(rows: Sequence[Row]) -> Tally:
    """Count the cells of the paper; a row that stands beside another one is none."""
    cells = [row for row in rows if row.published is not None and not row.aside]
    compared = [row for row in cells if row.distance is not None]
    far = [row for row in compared if row.is_far]
    unexplained = sum(row.cause == OPEN for row in far)
    return Tally(
        cells=len(cells),
        computed=sum(row.measured is not None for row in cells),
        compared=len(compared),
        within=len(compared) - len(far),
        explained=len(far) - unexplained,
        open=unexplained,
    )


def with_deviation(measured: Measured) -> str:
    """Write mean ± deviation, with two digits of the deviation."""
    mean, deviation = measured.mean, measured.deviation
    if deviation is None or not math.isfinite(deviation):
        return f"{mean:.4g}"
    if deviation == 0.0:
        return f"{mean:.4g} ± 0"
    decimals = max(0, 1 - math.floor(math.log10(deviation)))
    if decimals > 6:
        return f"{mean:.2e} ± {deviation:.1e}"
    return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"


def as_printed(published: Published) -> str:
    """Write what the paper prints, mean and deviation with equally many decimals."""
    if published.decimals is not None and published.deviation is not None:
        return " ± ".join(
            f"{value:.{published.decimals}f}" for value in (published.mean, published.deviation)
        )
    values = [published.mean, *([] if published.deviation is None else [published.deviation])]
    exponents = [Decimal(repr(float(value))).normalize().as_tuple().exponent for value in values]
    decimals = max([0, *(-exponent for exponent in exponents if isinstance(exponent, int))])
    return " ± ".join(f"{value:.{decimals}f}" for value in values)


@attrs.frozen
class Report:
    """All that there is to say of one run."""

    experiment: Experiment
    header: Header
    results: Mapping[Trial, Result]
    command: str
    failures: Mapping[Trial, str]
    seconds: float

    @property
    def measures(self) -> dict[Trial, Mapping[str, float]]:
        """What the trials gave."""
        return {trial: result.measures for trial, result in self.results.items()}

    @property
    def rows(self) -> list[Row]:
        """Return all rows."""
        return rows_of(self.experiment, summarised(self.measures))

    @property
    def beside(self) -> bool:
        """Whether the paper prints figures to compare with."""
        return bool(self.experiment.published())

    @property
    def columns(self) -> tuple[str, ...]:
        """What stands above the table."""
        first = ("setting", self.experiment.measure)
        if not self.beside:
            return (*first, "ours", "trials")
        return (*first, "paper", "ours", "trials", "difference", "cause")

    def remarks(self) -> Iterator[str]:
        """What belongs below the table, a sentence or more each."""
        yield from self.legend()
        yield from self.experiment.notes
        counted = Counter[str]()
        for result in self.results.values():
            counted.update(dict.fromkeys(result.warnings, 1))
        for kind, count in counted.items():
            yield f"{count} of {len(self.results)} trials gave a {kind}."
        for trial, message in self.failures.items():
            yield f"Failed and left out: {trial.setting}, trial {trial.number}: {message}"

    def legend(self) -> Iterator[str]:
        """Say what the columns are."""
        yield "mean ± standard deviation over trials."
        if not self.beside:
            return
        yield "difference: ours - paper, in standard errors of that difference."
        if any(
            p.deviation is None or p.trials is None for p in self.experiment.published().values()
        ):
            yield (
                "Where the paper gives no deviation or no number of trials, the standard error"
                " is that of ours alone, and the difference looks larger than it is."
            )
        found = tally(self.rows)
        yield (
            f"{found.compared - found.within} of {found.compared} differences are more than"
            f" {FAR:g} standard errors; {found.explained} of them have a known cause."
        )

    def origin(self) -> Iterator[tuple[str, str]]:
        """Yield what the results come from: each origin with its words."""
        results = self.results
        today = dt.datetime.now(dt.UTC).date().isoformat()
        own = sum(result.seconds for result in results.values() if result.seconds >= 0.0)
        yield "command", f"`{self.command}`"
        yield "seed", str(self.header.seed)
        yield "trials", f"{len(results)} in all"
        yield (
            "date",
            today if today == self.header.begun else f"{today}, begun {self.header.begun}",
        )
        commits = sorted({result.commit for result in results.values() if result.commit})
        written = f" ({', '.join(commits)})" * bool(commits)
        yield "version", f"mcframe {self.header.version}{written}"
        yield "machine", f"{os.cpu_count()} cores"
        yield "time", f"{duration(self.seconds)}; all trials one after another {duration(own)}"

    def markdown(self, picture: str | None) -> str:
        """Write it all as Markdown."""
        lines = [f"# {self.experiment.title}", "", f"{self.experiment.source}.", ""]
        lines += self.table(bold=True)
        lines += ["", *(f"- {remark}" for remark in self.remarks()), ""]
        lines += [f"- {name}: {value}" for name, value in self.origin()]
        if picture is not None:
            lines += ["", f"![{self.experiment.title}]({picture})"]
        return "\n".join(lines) + "\n"

    def table(self, *, bold: bool) -> list[str]:
        """Write the table."""
        return table_of(self.columns, self.rows, beside=self.beside, bold=bold)


def table_of(
    columns: Sequence[str], rows: Sequence[Row], *, beside: bool, bold: bool = True
) -> list[str]:
    """Return the lines of the table of some rows, with what is far from the paper in bold."""
    lines = []
    for row in rows:
        line = list(row.cells(beside=beside))
        if bold and row.is_far:
            line[5] = f"**{line[5]}**"
        lines.append(line)
    return ruled(columns, lines)


def ruled(columns: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    """Return a table in Markdown with columns of equal width, which reads well as text, too."""
    cells = [
        list(columns),
        *([text.replace("|", "\\|") for text in line] for line in lines),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return [
        "| " + " | ".join(f"{t:<{w}}" for t, w in zip(line, widths, strict=True)) + " |"
        for line in (cells[0], ["-" * width for width in widths], *cells[1:])
    ]


def show(report: Report) -> None:
    """Print it: on a terminal in its colours and width, elsewhere as Markdown."""
    if not sys.stdout.isatty():
        print(report.markdown(None), end="")
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    title, source = Text(report.experiment.title), Text(report.experiment.source)
    table = Table(box=SIMPLE, title=title, caption=source)
    for number, column in enumerate(report.columns):
        number_column = number >= 2
        table.add_column(
            column, justify="right" if number_column else "left", no_wrap=number_column
        )
    before = None
    for row in report.rows:
        cells = row.cells(beside=report.beside)
        place = "" if row.setting == before else row.setting
        table.add_row(*map(Text, (place, *cells[1:])), style="bold" if row.is_far else None)
        before = row.setting
    console = Console(highlight=False)
    console.print(table)
    for remark in report.remarks():
        console.print(f"- {remark}", markup=False)
    for name, value in report.origin():
        console.print(f"{name}: {value}", markup=False)
