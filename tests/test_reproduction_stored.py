"""Stored trials are those of the present code, and pages are written from them."""

import math

import pytest
from papers import experiments
from papers.pages import DOCS, RESULTS, pages, stored
from papers.runner import attempt
from papers.store import Result

import mcframe as mc

# Trials that took longer, in seconds, are computed anew by the slow tests alone.
QUICK = 20.0
NAMES = [name for name in experiments() if stored(name).results]


def cheapest(name):
    """The stored trial that took the least time."""
    results = stored(name).results
    return min(results, key=lambda trial: abs(results[trial].seconds))


def parameters():
    for name in NAMES:
        long = stored(name).results[cheapest(name)].seconds > QUICK
        yield pytest.param(name, marks=[pytest.mark.slow] * long)


def near(value, other, tolerance):
    """Whether two measures agree, relatively; what is not finite agrees with itself alone."""
    if not (math.isfinite(value) and math.isfinite(other)):
        return repr(value) == repr(other)
    return abs(value - other) <= tolerance * max(abs(value), abs(other))


@pytest.mark.parametrize("name", parameters())
def test_the_cheapest_stored_trial_of_each_command_is_computed_again(name):
    report, trial = stored(name), cheapest(name)
    try:
        report.experiment.check()
    except mc.DataError as error:
        pytest.skip(str(error))
    _, found = attempt(report.experiment, trial, report.header.seed)
    assert isinstance(found, Result), found.trace
    before = report.results[trial].measures
    assert found.measures.keys() >= before.keys()
    differences = {
        measure: (value, found.measures[measure])
        for measure, value in before.items()
        if not near(value, found.measures[measure], report.experiment.tolerance(measure))
    }
    assert differences == {}, f"run {name} again: {trial} differs"


def test_headers_name_the_version_that_wrote_them():
    for name in NAMES:
        report = stored(name)
        assert report.header.version
        assert report.header.commit
        assert report.header.seed == 0


def test_every_stored_file_belongs_to_a_command():
    files = {stored(name).header.name for name in NAMES}
    assert {path.stem for path in RESULTS.glob("*.jsonl")} == files


@pytest.mark.parametrize("path", sorted(pages()), ids=lambda path: path.name)
def test_pages_are_written_from_the_stored_trials(path):
    assert path.is_relative_to(DOCS)
    assert path.read_text(encoding="utf-8") == pages()[path], "run python examples/papers --page"
