"""Stored trials are those of the present code, and pages are written from them."""

import math

import pytest
from papers import experiments
from papers.pages import RESULTS, TEMPLATES, pages, stored
from papers.runner import attempt
from papers.store import Result

import mcframe as mc

# Trials that took longer, in seconds, are computed again by the slow tests alone.
QUICK = 0.8
NAMES = [name for name, kind in experiments().items() if stored(name).results]


def cheapest_trials():
    """The stored trial of each command, and of each part of its trials, that took least time."""
    for name in NAMES:
        if stored(name).experiment.trials_from:
            continue  # its trials are those of another command
        results = stored(name).results
        by_cost = sorted(results, key=lambda trial: results[trial].seconds)
        for part in dict.fromkeys(trial.part for trial in by_cost):
            trial = next(trial for trial in by_cost if trial.part == part)
            quick = trial == by_cost[0] and results[trial].seconds <= QUICK
            marks = [] if quick else [pytest.mark.slow]
            yield pytest.param(name, trial, marks=marks, id=f"{name} {part}".strip())


def near(value, other, tolerance):
    """Whether two measures agree, relatively; what is not finite agrees with itself alone."""
    if not (math.isfinite(value) and math.isfinite(other)):
        return repr(value) == repr(other)
    return abs(value - other) <= tolerance * max(abs(value), abs(other))


@pytest.mark.parametrize(("name", "trial"), list(cheapest_trials()))
def test_a_stored_trial_is_computed_again(name, trial):
    report = stored(name)
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
    assert differences == {}, f"{name} is to be run again"


def test_results_name_the_version_that_wrote_them():
    for name in NAMES:
        header = stored(name).header
        assert header.version
        assert header.commit
        assert header.seed == 0


def test_every_stored_file_belongs_to_a_command():
    assert {path.stem for path in RESULTS.glob("*.jsonl")} == {
        stored(name).header.name for name in NAMES
    }


@pytest.mark.parametrize("name", sorted(path.name for path in TEMPLATES.glob("*.md")))
def test_pages_are_written_from_the_stored_trials(name):
    (path,) = (path for path in pages() if path.name == name)
    assert path.read_text(encoding="utf-8") == pages()[path], "run python examples/papers --page"
