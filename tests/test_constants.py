"""The register of tuned numbers: it has all numbers of the code, and its page is its file."""

import json

import pytest

import mcframe as mc
from mcframe.backends import alternating

from .test_benchmarks import script  # noqa: F401


@pytest.fixture
def constants(script):  # noqa: F811
    return script("constants")


def test_the_register_has_all_numbers_of_the_code_with_their_values(constants):
    code = {c.key: constants.shown(c.value) for c in constants.constants()}
    register = {line["key"]: constants.shown(line["value"]) for line in constants.lines()}
    assert code == register


def test_the_page_is_written_from_the_register(constants):
    assert constants.PAGE.read_text(encoding="utf-8").endswith(constants.table() + "\n")


def test_numbers_are_halved_and_doubled(constants):
    assert constants.changed(40, 0.5) == 20
    assert constants.changed(1, 0.5) == 1
    assert constants.changed(1e-9, 2.0) == 2e-9
    assert constants.changed(0.9, 0.5) == pytest.approx(0.95)
    assert constants.changed(0.9, 2.0) == pytest.approx(0.8)
    assert constants.changed(1.05, 2.0) == pytest.approx(1.1)
    assert constants.changed((0.0, 1e-3, 4), 2.0) == (0.0, 2e-3, 8)


@pytest.mark.slow(seconds=3)
def test_a_number_is_changed_wherever_it_stands(constants):
    readers = constants.Readers()
    by_name = {c.key: c for c in constants.constants()}
    small = by_name["backends.alternating.SMALL_COLUMN_RATIO"]
    places, compiled = readers.functions(small)
    assert places
    assert not compiled
    before = alternating.SMALL_COLUMN_RATIO
    constants.put(readers, small, 0.5)
    try:
        assert alternating.SMALL_COLUMN_RATIO == 0.5
    finally:
        constants.put(readers, small, before)
    shared = by_name["contracts.rounding.EPS"]
    assert len(list(readers.homes(shared))) > 5


def test_a_change_that_ends_a_fit_otherwise_is_told(constants):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    data = {"x": constants.low_rank((12, 8), 2, 0.2, 0)}
    fits = [constants.fitted(model, data, max_iter=n, backend="proximal") for n in (600, 2)]
    many, few = ({"fit": constants.timed(fit)} for fit in fits)
    same = constants.compared(many, {"fit": constants.timed(fits[0])})
    assert same["lost"] == []
    assert (same["objectives"], same["iterations"]) == (0.0, 1.0)
    assert constants.compared(many, few)["lost"] == ["fit: certified -> iteration_limit"]
    failed = constants.timed(lambda: 1 / 0)
    assert failed.status.startswith("ZeroDivisionError")


@pytest.mark.slow(seconds=7)
def test_a_line_without_effects_is_measured_by_the_next_run(constants, monkeypatch, tmp_path):
    register = tmp_path / "constants.jsonl"
    key = "backends.alternating.SMALL_COLUMN_RATIO"
    register.write_text(json.dumps({"key": key, "value": alternating.SMALL_COLUMN_RATIO}) + "\n")
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    data = {"x": constants.low_rank((12, 8), 2, 0.2, 0)}
    task = {"one": constants.fitted(model, data, backend="alternating")}
    monkeypatch.setattr(constants, "REGISTER", register)
    monkeypatch.setattr(constants, "tasks", lambda: task)
    constants.run(key)
    [_, measured] = constants.lines()
    assert measured["tasks"] == 1
    assert {"half", "double"} <= measured.keys()
    constants.run(key)
    assert len(constants.lines()) == 2
