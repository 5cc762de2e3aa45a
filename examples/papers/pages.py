"""The pages of the documentation: templates whose numbers come from the stored trials."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.errors import DataError
from mcframe.runtime.progress import duration
from papers.experiment import Experiment, Measured, summarised
from papers.picture import draw, draw_bars
from papers.registry import PAPERS, experiments, find, of_paper
from papers.report import (
    OPEN,
    Report,
    Row,
    Tally,
    as_printed,
    ruled,
    table_of,
    tally,
    with_deviation,
)
from papers.store import Header, Store

__all__ = ["RESULTS", "Numbers", "pages", "stored", "write_pages"]

DOCS = Path(__file__).resolve().parents[2] / "docs"
RESULTS = DOCS / "reproduction" / "results"
TEMPLATES = Path(__file__).resolve().parent / "templates"
# What stands between two pairs of braces is an expression; its value takes its place.
PLACE = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
TITLES = {
    "goldberg": "Goldberg et al. (2010)",
    "coco": "Xu et al. (2018), COCO",
    "zheng": "Zheng and Hastie (2015)",
    "tmcc": "Wang et al. (2023), TMCC",
    "hayashi": "Hayashi et al. (2018)",
}


@cache
def stored(name: str) -> Report:
    """Return what is stored of an experiment, empty where nothing is.

    Raises
    ------
    DataError
        Where the results are of other sizes than those of the experiment.
    """
    experiment = find(name)()
    header = Header.of(experiment, seed=0, tiny=False, begun="")
    path, results = RESULTS / f"{header.name}.jsonl", {}
    if path.exists():
        store = Store(path, header, resume=True)
        header, results = store.header, store.results
    return Report(experiment, header, results, f"python examples/papers {name}", {}, 0.0)


class Numbers:
    """What a template may write: tables, and single numbers, of stored trials."""

    def names(self) -> dict[str, Any]:
        """Return these functions by name, with what a template calculates with."""
        own = {name: getattr(self, name) for name in dir(self) if not name.startswith("_")}
        return own | {"np": np}

    def report(self, name: str) -> Report:
        """Return the stored trials of an experiment."""
        return stored(name)

    def values(self, name: str, setting: str, measure: str) -> dict[int, float]:
        """Return one measure of one setting by the number of the trial."""
        results = stored(name).results.items()
        return {
            trial.number: result.measures[measure]
            for trial, result in results
            if trial.setting == setting and measure in result.measures
        }

    def measured(self, name: str, setting: str, measure: str) -> Measured:
        """Return one measure of one setting.

        Raises
        ------
        DataError
            Where no trial has it.
        """
        found = self.values(name, setting, measure)
        if not found:
            raise DataError(f"no stored trial of {name}, {setting}, has {measure!r}")
        return Measured(tuple(found.values()))

    def mean(self, name: str, setting: str, measure: str) -> float:
        """Return the mean of a measure."""
        return self.measured(name, setting, measure).mean

    def known(self, name: str, setting: str, measure: str, factor: float = 1.0) -> str:
        """Write the mean of a measure times a factor, and where no trial has it that it is not."""
        if not self.values(name, setting, measure):
            return "(not stored)"
        return f"{factor * self.mean(name, setting, measure):.3g}"

    def ours(self, name: str, setting: str, measure: str) -> str:
        """Write the mean of a measure with its standard deviation."""
        return with_deviation(self.measured(name, setting, measure))

    def theirs(self, name: str, settings: Sequence[str], measure: str) -> str:
        """Write what the paper prints for a measure, in some settings."""
        published = stored(name).experiment.published()
        return ", ".join(as_printed(published[setting, measure]) for setting in settings)

    def paired(self, name: str, setting: str, one: str, other: str) -> tuple[float, float, int]:
        """Return the mean of ``one - other`` over common trials, its error, and their number."""
        first, second = (self.values(name, setting, measure) for measure in (one, other))
        differences = np.array([first[k] - second[k] for k in first.keys() & second.keys()])
        error = differences.std(ddof=1) / np.sqrt(differences.size)
        return float(differences.mean()), float(error), differences.size

    def difference(self, name: str, setting: str, one: str, other: str, digits: int = 3) -> str:
        """Write the mean of ``one - other`` over trials, ± its standard error."""
        if len(self.values(name, setting, one).keys() & self.values(name, setting, other)) < 2:
            return "(too few trials)"
        mean, error, _ = self.paired(name, setting, one, other)
        return f"{mean:+.{digits}f} ± {error:.{digits}f}"

    def order(self, places: Sequence[float], values: Sequence[float]) -> float:
        """Return the slope on logarithmic axes, by least squares."""
        return float(np.polyfit(np.log(places), np.log(values), 1)[0])

    def table(self, name: str, measures: str = ".*", settings: str = ".*") -> str:
        """Write the table of an experiment, or those rows that match."""
        report = stored(name)
        rows = [
            row
            for row in report.rows
            if re.fullmatch(measures, row.measure) and re.fullmatch(settings, row.setting)
        ]
        return "\n".join(table_of(report.columns, rows, beside=report.beside))

    def grid(self, name: str, columns: Sequence[str], kind: str) -> str:
        """Write a row for each setting and a column for each method: paper / ours (trials), ...

        A cell ends with the difference in standard errors, and with its cause where it is far.
        """
        report = stored(name)
        rows = {(row.setting, row.measure): row for row in report.rows}
        lines = [
            [setting, *(cell_of(rows.get((setting, f"{each} {kind}"))) for each in columns)]
            for setting in report.experiment.settings()
        ]
        return "\n".join(ruled(["setting", *columns], lines))

    def wide(self, name: str, columns: Mapping[str, str], title: str = "setting") -> str:
        """Write a row for each setting, and a column for each measure under its heading."""
        summary = summarised(stored(name).measures)
        lines = [
            [
                setting,
                *(
                    with_deviation(summary[setting][measure])
                    if measure in summary.get(setting, {})
                    else ""
                    for measure in columns.values()
                ),
            ]
            for setting in stored(name).experiment.settings()
        ]
        return "\n".join(ruled([title, *columns], lines))

    def across(self, name: str, measures: Mapping[str, str], title: str = "") -> str:
        """Write a row for each measure, under its heading, and a column for each setting."""
        summary = summarised(stored(name).measures)
        settings = [each for each in stored(name).experiment.settings() if each in summary]
        lines = [
            [heading, *(with_deviation(summary[each][measure]) for each in settings)]
            for heading, measure in measures.items()
        ]
        return "\n".join(ruled([title, *settings], lines))

    def stops(self, name: str, rules: Sequence[str]) -> str:
        """Write how far each stopping rule of a published algorithm is from the optimum."""
        summary, lines = summarised(stored(name).measures), []
        measures = ("iterations", "excess", "own gap", "distance")
        for setting, found in summary.items():
            for rule in rules:
                means = [found[f"{rule}: {measure}"].mean for measure in measures]
                lines.append([setting, rule, f"{means[0]:.0f}", *(f"{v:.1e}" for v in means[1:])])
        headings = ("iterations", "certified excess", "own gap", "distance of Z")
        return "\n".join(ruled(["instance", "rule", *headings], lines))

    def far(self, name: str) -> str:
        """Write how many cells differ, and of how many that is known why."""
        return said(tally(stored(name).rows))

    def open_cells(self, name: str, settings: str = ".*") -> str:
        """Write the cells that differ by more than two standard errors, and nobody knows why."""
        found = [
            f"{row.setting}: {row.measure} {row.distance:+.1f}"
            for row in stored(name).rows
            if row.cause == OPEN and re.fullmatch(settings, row.setting)
        ]
        return "; ".join(found) or "none"

    def run_of(self, name: str) -> str:
        """Write what the stored trials come from: command, seed, trials, code, date, time."""
        report = stored(name)
        header, results = report.header, report.results
        commits = sorted({each.commit or header.commit for each in results.values()})
        seconds = sum(result.seconds for result in results.values())
        return (
            f"`{report.command}`, seed {header.seed}; {trials_of(report)}; begun {header.begun}"
            f" with commit{'s' * (len(commits) > 1)} {listed(commits)}, {duration(seconds)} in all"
        )

    def trials(self, name: str) -> str:
        """Write how many trials the cells have."""
        return trials_of(stored(name))

    def by_chance(self, *names: str) -> str:
        """Write how many differences, all without names, are beyond two if all agree."""
        names = names or tuple(kind.name for kind in experiments().values())
        rows = [row for name in names for row in stored(name).rows if not row.aside]
        chances = [row.chance for row in rows if row.distance is not None]
        return f"Of {len(chances)} differences about {sum(chances):.0f}"

    def summary(self) -> str:
        """Write the table of all papers: cells, and how ours compare with them."""
        found = {paper: Tally(0, 0, 0, 0, 0, 0) for paper in PAPERS}
        for paper in PAPERS:
            for kind in of_paper(paper).values():
                found[paper] += tally(stored(kind.name).rows)
        found["all"] = sum(found.values(), start=Tally(0, 0, 0, 0, 0, 0))
        lines = [
            [
                TITLES.get(paper, "all five"),
                *(str(number) for number in attrs.astuple(each)),
            ]
            for paper, each in found.items()
        ]
        headings = ("paper", "cells", "computed", "compared", "within 2", "explained", "open")
        return "\n".join(ruled(headings, lines))


def cell_of(row: Row | None) -> str:
    """Write a cell of a grid."""
    if row is None or row.measured is None:
        return "" if row is None or row.published is None else f"{as_printed(row.published)} / "
    ours = f"{with_deviation(row.measured)} ({row.measured.trials})"
    if row.published is None:
        return ours
    distance = "" if row.distance is None else f", {row.distance:+.1f}"
    if row.is_far:
        distance = f", **{row.distance:+.1f}** {row.cause}".rstrip()
    theirs = "" if row.aside else f"{as_printed(row.published)} / "
    return f"{theirs}{ours}{distance}"


def said(found: Tally) -> str:
    """Write a tally as a sentence."""
    missing = found.cells - found.computed
    return (
        f"The paper prints {found.cells} figures here"
        + (f", of which {missing} have not been computed" if missing else "")
        + f". Of {found.compared} differences {found.within} are within two standard errors,"
        f" {found.explained} are explained and {found.open} are open."
    )


def counted(report: Report, part: str) -> list[int]:
    """Return how many trials of a part each setting has."""
    return [
        sum(trial.setting == setting and trial.part == part for trial in report.results)
        for setting in report.experiment.settings()
    ]


def span(counts: Sequence[int]) -> str:
    """Write the least and the most of some counts, one number where they are the same."""
    least, most = min(counts), max(counts)
    return f"{least} to {most}" if least < most else f"{most}"


def trials_of(report: Report) -> str:
    """Write how many trials each setting has, and where parts differ, each part."""
    experiment, named = report.experiment, dict[str, list[str]]()
    for part in parts_of(experiment):
        number = span(counted(report, part))
        words = f"{number} trial{'s' * (number != '1')} a setting"
        named.setdefault(words, []).append(f'"{part}"' if part else "the main part")
    if len(named) == 1:
        return next(iter(named))
    return "; ".join(f"{words} of {listed(parts)}" for words, parts in named.items())


def listed(words: Sequence[str]) -> str:
    """Write words as a list in a sentence."""
    return " and ".join([", ".join(words[:-1]), *words[-1:]] if len(words) > 1 else words)


def parts_of(experiment: Experiment) -> list[str]:
    """Return the parts that trials of an experiment have."""
    found = [part for s in experiment.settings() for part in experiment.parts(s)]
    return list(dict.fromkeys(found))


def statements(paper: str) -> Any:
    """Return the module of what a page shows of its own."""
    return import_module(f"papers.{paper}_statements")


@cache
def pages() -> dict[Path, str]:
    """Return all pages that have a template, by the file that they belong to."""
    found = {}
    for template in sorted(TEMPLATES.glob("*.md")):
        paper = template.stem
        names = Numbers().names() | statements(paper).PAGE
        folder = DOCS / "reproduction" if paper in PAPERS else DOCS
        text = template.read_text(encoding="utf-8")
        found[folder / template.name] = PLACE.sub(lambda place: written(place, names), text)  # noqa: B023
    return found


def written(place: re.Match[str], names: Mapping[str, Any]) -> str:
    """Return the value of an expression of a template."""
    expression = " ".join(place[1].split())
    try:
        return str(eval(expression, dict(names)))
    except Exception as error:
        error.add_note(f"in the template's {{{{ {expression} }}}}")
        raise


def write_pages() -> None:
    """Write all pages, and the pictures beside them, from the stored trials."""
    for kind in experiments().values():
        report = stored(kind.name)
        picture = DOCS / "reproduction" / f"{kind.name}.png"
        if report.results:
            draw(report.experiment, summarised(report.measures), picture)
    for paper in PAPERS:
        if hasattr(statements(paper), "GLANCE"):
            draw_bars(statements(paper).GLANCE(), DOCS / "reproduction" / f"{paper}-glance.png")
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path)
