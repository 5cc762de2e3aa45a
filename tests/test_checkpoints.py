"""Files of finished work: fits come back to the last bit, and a killed process loses nothing."""

import functools
import json
import os
import signal
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.model import Problem
from mcframe.partitions.partitioned_data import RowsInMemory
from mcframe.runtime.machine import held
from mcframe.selection import (
    Grid,
    HeldOutLoss,
    LabelError,
    RelativeError,
    RowFolds,
    cross_validation,
    paths,
)
from mcframe.storage.archive import Archive
from mcframe.storage.digest import digest_of

from .strategies import damaged

pytestmark = pytest.mark.filterwarnings("ignore:the lowest mean score is at")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((12, 2)) @ RNG.standard_normal((2, 6)) + 0.1 * RNG.standard_normal((12, 6))
X[RNG.random(X.shape) < 0.2] = np.nan
STARS = np.clip(np.round(X + 3.0), 1, 5)
BLOCK, NORM = mc.Block("x", mc.Gaussian(), bias=True), mc.NuclearNorm(0.5)
CASES = {
    "a bias": (mc.Model([BLOCK], [NORM]), "auto"),
    "ones": (mc.Model([BLOCK], [NORM, mc.OnesColumn()]), "auto"),
    "a box": (mc.Model([BLOCK], [NORM, mc.Box(-1, 1)]), "auto"),
    "medians": (mc.Model([mc.Block("x", mc.Quantile(0.5))], [NORM]), "auto"),
    "thresholds and a box": (
        mc.Model([mc.Block("x", mc.Ordinal(5))], [NORM, mc.Box(-9, 9)]),
        "auto",
    ),
    "both effects": (
        mc.Model([attrs.evolve(BLOCK, row_effects=True)], [NORM, mc.ResidualNuclearNorm("x", 1)]),
        "auto",
    ),
    "a max norm": (mc.Model([BLOCK], [mc.MaxNorm(0.5)]), "auto"),
    "alternating": (mc.Model([BLOCK], [NORM]), "alternating"),
    "the reference": (mc.Model([BLOCK], [NORM]), "reference"),
}


def data_of(model):
    return {"x": STARS if isinstance(model.blocks[0].likelihood, mc.Ordinal) else X}


@pytest.mark.parametrize("name", CASES)
def test_a_fit_comes_back_to_the_last_bit(name, tmp_path):
    model, backend = CASES[name]
    fit = mc.fit(model, data_of(model), backend=backend, tol=1e-4)
    archive = Archive.at_path(tmp_path / "one.npz", "fit", {})
    archive.add("fit", fit, problem=fit.problem)
    again = archive.read("fit", "Fit", problem=fit.problem)
    assert repr(again) == repr(fit)
    assert again.history == fit.history
    assert isinstance(again.history[-1].iteration, int)
    assert (again.objective, again.bound, again.gap) == (fit.objective, fit.bound, fit.gap)
    np.testing.assert_array_equal(again.predict("x"), fit.predict("x"))
    assert digest_of(again.point) == digest_of(fit.point)
    assert digest_of(dict(again.effects)) == digest_of(dict(fit.effects))
    if backend != "reference":
        warm = [mc.fit(model, data_of(model), start=s, tol=1e-5) for s in (fit, again)]
        assert warm[0].objective == warm[1].objective


def test_numpy_and_json_read_what_is_written(tmp_path):
    file = tmp_path / "path.npz"
    path = mc.path(CASES["a bias"][0], {"x": X}, weights=Grid(count=3), checkpoint=file)
    with np.load(file, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["2/point/latent/left"], path[2].latent.left)
    with zipfile.ZipFile(file) as members:
        assert json.loads(members.read("header.json"))["kind"] == "path"
        assert json.loads(members.read("1/facts.json"))["status"] == "certified"


def counting(monkeypatch):
    """How many fits ``path`` makes."""
    solved, made = paths.solve_with, []

    def counted(compiled, chosen, settings):
        made.append(1)
        return solved(compiled, chosen, settings)

    monkeypatch.setattr(paths, "solve_with", counted)
    return made


def test_a_path_goes_on_where_it_ended(tmp_path, monkeypatch):
    model, file = CASES["a bias"][0], tmp_path / "path.npz"
    whole = mc.path(model, {"x": X}, weights=Grid(count=6))

    def no_answer(compiled, chosen, settings):
        if len(made) == 3:
            raise mc.BackendError("power cut")
        return counted(compiled, chosen, settings)

    made = counting(monkeypatch)
    counted = paths.solve_with
    with monkeypatch.context() as patch:
        patch.setattr(paths, "solve_with", no_answer)
        with pytest.warns(mc.NotCertifiedWarning, match="after 3 of 6"):
            mc.path(model, {"x": X}, weights=Grid(count=6), checkpoint=file)
    path = mc.path(model, {"x": X}, weights=Grid(count=6), checkpoint=str(file))
    assert len(made) == 6
    assert [fit.objective for fit in path] == [fit.objective for fit in whole]
    again = mc.path(model, {"x": X}, weights=Grid(count=6), checkpoint=file)
    assert len(made) == 6
    assert repr(again) == repr(path)
    assert again[3].problem.tables is again[0].problem.tables


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_fit_is_made_again(tmp_path, monkeypatch):
    model, file = CASES["a bias"][0], tmp_path / "path.npz"
    solved = paths.solve_with

    def interrupted(compiled, chosen, settings):
        stop = compiled.problem.terms[0].weight == 0.5
        callback = (lambda record: os.kill(os.getpid(), signal.SIGINT)) if stop else None
        return solved(compiled, chosen, attrs.evolve(settings, callback=callback))

    with monkeypatch.context() as patch:
        patch.setattr(paths, "solve_with", interrupted)
        with pytest.warns(mc.NotCertifiedWarning, match="interrupted from outside"):
            short = mc.path(model, {"x": X}, weights=[1.0, 0.5, 0.2], checkpoint=file)
    assert short[-1].status == "interrupted"
    made = counting(monkeypatch)
    path = mc.path(model, {"x": X}, weights=[1.0, 0.5, 0.2], checkpoint=file)
    assert len(made) == 2
    assert [fit.status for fit in path] == ["certified"] * 3


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"data": {"x": np.where(np.isnan(X), 1.0, X)}}, "another path: different data"),
        ({"data": {"x": mc.Observations(X, weights=2.0)}}, "different data"),
        ({"model": CASES["ones"][0]}, "different model"),
        ({"weights": [1.0, 0.4]}, "different weights"),
        ({"tol": 1e-3}, "tol is 1e-06 there and 0.001 here"),
        ({"backend": "alternating"}, "different backend"),
        ({"random_state": 3}, "random_state is 0 there and 3 here"),
    ],
)
def test_a_file_of_another_path_is_refused(tmp_path, change, named):
    options = {"model": CASES["a bias"][0], "data": {"x": X}, "weights": [1.0, 0.5]}
    mc.path(**options, checkpoint=tmp_path / "path.npz")
    with pytest.raises(mc.DataError, match=named):
        mc.path(**(options | change), checkpoint=tmp_path / "path.npz")


def test_a_path_without_a_seed_goes_on(tmp_path, monkeypatch):
    options = {"weights": [1.0, 0.5], "random_state": None, "checkpoint": tmp_path / "path.npz"}
    first = mc.path(CASES["a bias"][0], {"x": X}, **options)
    made = counting(monkeypatch)
    again = mc.path(CASES["a bias"][0], {"x": X}, **options)
    assert not made
    assert [fit.random_state for fit in again] == [fit.random_state for fit in first]


def test_the_weight_that_the_term_has_plays_no_part(tmp_path, monkeypatch):
    model, file = CASES["a bias"][0], tmp_path / "path.npz"
    mc.path(model, {"x": X}, weights=[1.0, 0.5], checkpoint=file)
    made = counting(monkeypatch)
    other = attrs.evolve(model, terms=[mc.NuclearNorm(7.0)])
    mc.path(other, {"x": X}, weights=[1.0, 0.5], checkpoint=file)
    assert not made


@pytest.mark.parametrize("content", [b"", b"something else", None])
def test_what_is_no_checkpoint_is_refused_before_any_fit(tmp_path, content, monkeypatch):
    file = tmp_path / "notes.txt"
    if content is None:
        np.savez(tmp_path / "notes.npz", a=np.ones(3))
        file = tmp_path / "notes.npz"
    else:
        file.write_bytes(content)
    before, made = file.read_bytes(), counting(monkeypatch)
    with pytest.raises(mc.DataError, match="was not written by mcframe, or it is damaged"):
        mc.path(CASES["a bias"][0], {"x": X}, weights=Grid(count=3), checkpoint=file)
    assert file.read_bytes() == before
    assert not made


def test_a_place_that_cannot_be_written_is_said_before_any_fit(tmp_path, monkeypatch):
    made = counting(monkeypatch)
    with pytest.raises(mc.DataError, match=r"cannot be written .* a folder that exists"):
        mc.path(
            CASES["a bias"][0],
            {"x": X},
            weights=Grid(count=3),
            checkpoint=tmp_path / "no" / "path.npz",
        )
    with pytest.raises(mc.DataError, match="was not written by mcframe, or it is damaged"):
        mc.path(CASES["a bias"][0], {"x": X}, weights=Grid(count=3), checkpoint=tmp_path)
    with pytest.raises(mc.ModelError, match="checkpoint=3 was given"):
        mc.path(CASES["a bias"][0], {"x": X}, weights=Grid(count=3), checkpoint=3)
    assert not made


KILLED = """
import os, signal, sys
import numpy as np
import mcframe as mc

if __name__ == "__main__":
    file, how, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
    replace, calls = os.replace, []

    def deadly(source, target):
        # Either in the middle of a write, or just after it.
        calls.append(target)
        if how == "within" and len(calls) == at:
            with open(source, "r+b") as half:
                half.truncate(os.path.getsize(source) // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)
        if how == "after" and len(calls) == at:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = deadly
    x = np.load(sys.argv[4])
    model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.5)])
    if sys.argv[5] == "path":
        mc.path(model, {"x": x}, weights=mc.selection.Grid(count=6), checkpoint=file)
    else:
        criterion = mc.selection.RelativeError("x")
        grid = mc.selection.Grid(count=4)
        mc.cross_validate(
            model, {"x": x}, criterion=criterion, weights=grid, cv=3, checkpoint=file
        )
"""


def killed(tmp_path, how, at, verb):
    """The file that a process has left that was killed at its write number ``at``."""
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "killed.py").write_text(KILLED)
    arguments = [tmp_path / "work.npz", how, at, tmp_path / "x.npy", verb]
    process = subprocess.run(
        [sys.executable, str(tmp_path / "killed.py"), *map(str, arguments)], check=False
    )
    assert process.returncode == -signal.SIGKILL
    return tmp_path / "work.npz"


@pytest.mark.parametrize(("how", "missing"), [("within", 4), ("after", 3)])
@pytest.mark.some(1.4, how=1)
def test_a_killed_path_loses_no_finished_fit(tmp_path, monkeypatch, how, missing):
    """The first write is that of the header."""
    file = killed(tmp_path, how, 4, "path")
    made = counting(monkeypatch)
    model = CASES["a bias"][0]
    path = mc.path(model, {"x": X}, weights=Grid(count=6), checkpoint=file)
    assert len(made) == missing
    whole = mc.path(model, {"x": X}, weights=Grid(count=6))
    for fit, expected in zip(path, whole, strict=True):
        assert fit.objective == expected.objective
    assert sorted(p.name for p in tmp_path.iterdir()) == ["killed.py", "work.npz", "x.npy"]


@pytest.mark.slow(seconds=2)
def test_a_killed_cross_validation_goes_on_within_a_fold(tmp_path, monkeypatch):
    """Two headers, four fits, the scores; a third header, two fits, and the third one."""
    file = killed(tmp_path, "within", 11, "cross_validate")
    beside = tmp_path / "work.npz.model0.fold1"
    assert beside.exists()
    made = counting(monkeypatch)
    options = {"criterion": RelativeError("x"), "weights": Grid(count=4), "cv": 3}
    found = mc.cross_validate(CASES["a bias"][0], {"x": X}, checkpoint=file, **options)
    assert len(made) == 2 + 4
    assert sorted(tmp_path.glob("work.npz*")) == [file]
    whole = mc.cross_validate(CASES["a bias"][0], {"x": X}, **options)
    np.testing.assert_array_equal(found.scores, whole.scores)
    made.clear()
    again = mc.cross_validate(CASES["a bias"][0], {"x": X}, checkpoint=file, **options)
    assert not made
    assert repr(again) == repr(whole)


def test_an_interrupted_cross_validation_goes_on(tmp_path, monkeypatch):
    calls, original = [], cross_validation.score_of

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 8:
            raise KeyboardInterrupt
        return original(*arguments)

    file = tmp_path / "work.npz"
    options = {"criterion": HeldOutLoss(), "cv": 3, "checkpoint": file}
    options["weights"] = Grid(count=3, patience=None)
    with monkeypatch.context() as patch:
        patch.setattr(cross_validation, "score_of", interrupted)
        with pytest.warns(mc.NotCertifiedWarning, match="interrupted after 2 of 3"):
            partial = mc.cross_validate(CASES["a bias"][0], {"x": X}, **options)
    made = counting(monkeypatch)
    found = mc.cross_validate(CASES["a bias"][0], {"x": X}, n_jobs=1, **options)
    assert len(made) == 1
    assert not found.partial
    known = ~np.isnan(partial.scores)
    np.testing.assert_array_equal(found.scores[known], partial.scores[known])


def test_processes_write_into_the_same_file(tmp_path, monkeypatch):
    options = {"criterion": RelativeError("x"), "weights": Grid(count=3), "cv": 3}
    options["checkpoint"] = tmp_path / "work.npz"
    found = mc.cross_validate(CASES["a bias"][0], {"x": X}, n_jobs=2, **options)
    made = counting(monkeypatch)
    again = mc.cross_validate(CASES["a bias"][0], {"x": X}, **options)
    assert not made
    np.testing.assert_array_equal(found.scores, again.scores)
    assert [p.name for p in tmp_path.iterdir()] == ["work.npz"]


def test_all_criteria_are_kept(tmp_path, monkeypatch):
    options = {"criterion": [RelativeError("x"), HeldOutLoss()], "weights": Grid(count=3), "cv": 3}
    options["checkpoint"] = tmp_path / "work.npz"
    found = mc.cross_validate(CASES["a bias"][0], {"x": X}, **options)
    made = counting(monkeypatch)
    again = mc.cross_validate(CASES["a bias"][0], {"x": X}, **options)
    assert not made
    assert list(again.all_scores) == list(found.all_scores)
    for name, scores in found.all_scores.items():
        np.testing.assert_array_equal(again.all_scores[name], scores)


def test_scores_of_nan_and_patience_are_kept(tmp_path):
    given = iter([[3.0, 1.0, np.nan, 2.0], [3.0, 1.0, 1.5, 2.0]] * 2)

    def path(model, data, weights):
        return iter(next(given))

    def itself(fit, held):
        return fit

    options = {"criterion": itself, "path": path, "cv": 2}
    options |= {
        "weights": Grid([1.0, 0.5, 0.2, 0.1], patience=1),
        "checkpoint": tmp_path / "work.npz",
    }
    printed = []
    for _ in range(2):
        with pytest.warns(UserWarning, match="nan at weight 0.2 of model 0 on fold 0"):
            printed.append(repr(mc.cross_validate(CASES["a bias"][0], {"x": X}, **options)))
    assert printed[0] == printed[1]
    assert next(given) == [3.0, 1.0, np.nan, 2.0]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"criterion": HeldOutLoss("x")}, "different criterion"),
        ({"criterion": lambda fit, held: 2.0}, "different criterion"),
        ({"random_state": 1}, "different folds"),
        ({"cv": 3}, "different folds"),
        ({"cv": RowFolds(2)}, "different folds"),
        ({"criterion": [RelativeError("x"), HeldOutLoss()]}, "different criterion"),
        ({"criterion": {"error": RelativeError("x")}}, "different criterion"),
        ({"weights": Grid([1.0, 0.5], patience=None)}, "patience is 2 there and None here"),
        ({"path": lambda model, data, weights: [1, 1]}, "different path"),
        ({"weights": [1.0, 0.4]}, "different weights"),
        ({"models": [CASES["a bias"][0]] * 2}, "different models"),
        ({"max_seconds": 700.0}, "max_seconds is inf there and 700.0 here"),
    ],
)
def test_a_file_of_another_cross_validation_is_refused(tmp_path, change, named):
    options = {"models": CASES["a bias"][0], "data": {"x": X}, "weights": [1.0, 0.5], "cv": 2}
    options |= {"criterion": RelativeError("x"), "checkpoint": tmp_path / "work.npz"}
    mc.cross_validate(**options)
    with pytest.raises(mc.DataError, match=f"another cross-validation: .*{named}"):
        mc.cross_validate(**(options | change))
    with pytest.raises(mc.DataError, match="holds a cross-validation, and a path"):
        mc.path(options["models"], options["data"], checkpoint=options["checkpoint"])


def test_digests_see_every_bit_of_an_array():
    large = np.ones((60, 60))
    other = large.copy()
    other[30, 30] += 1e-15
    first, second = (mc.Calibration("x", A, np.ones(3)) for A in (large[:1], other[30:31]))
    assert digest_of(first) != digest_of(second)
    assert repr(large) == repr(other)
    assert digest_of(large) != digest_of(other)
    assert digest_of(large) == digest_of(np.asfortranarray(large))
    tables = [Problem.bind(CASES["a bias"][0], {"x": x}) for x in (X, X.copy(), X + 1e-9)]
    digests = [table.digest_of_data for table in tables]
    assert digests[0] == digests[1] != digests[2]


class Plain:
    """A criterion whose repr is an address."""

    def __init__(self, number):
        self.number = number

    def __call__(self, fit, held):
        return self.number


def closing_over(number):
    def criterion(fit, held):
        return number if fit else criterion(1, held)

    return criterion


def test_digests_of_functions_and_objects_are_those_of_what_they_do():
    assert digest_of(closing_over(1)) == digest_of(closing_over(1)) != digest_of(closing_over(2))
    assert digest_of(Plain(1)) == digest_of(Plain(1)) != digest_of(Plain(2))
    assert digest_of(Plain(1).__call__) != digest_of(Plain(2).__call__)
    halves = [functools.partial(closing_over, number) for number in (1, 1, 2)]
    assert digest_of(halves[0]) == digest_of(halves[1]) != digest_of(halves[2])
    assert digest_of(LabelError("a")) != digest_of(LabelError("b"))
    assert digest_of([1, "a", None, 2.0]) != digest_of([1, "a", None, 2])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A model, data in partitions, a checkpoint of their fit, and its bytes."""
    model, file = CASES["a bias"][0], tmp_path_factory.mktemp("kept") / "fit.npz"
    data = RowsInMemory({"x": X}, n_partitions=2)
    mc.fit(model, data, tol=1e-4, checkpoint=file)
    return model, data, file, file.read_bytes()


def is_refused(kept, content):
    """A fit from other content of its checkpoint ends in the one error, and leaves it there."""
    model, data, file, _ = kept
    file.write_bytes(content)
    with pytest.raises(mc.DataError, match=r"it is damaged: its bytes do not agree") as error:
        mc.fit(model, data, checkpoint=file)
    assert str(file) in str(error.value)
    assert "delete the file to begin afresh" in str(error.value)
    assert file.read_bytes() == content


@settings(max_examples=40)
@given(st.data())
def test_any_damage_to_a_checkpoint_is_refused(kept, data):
    is_refused(kept, data.draw(damaged(kept[3])))


@pytest.mark.slow
@settings(max_examples=2000)
@given(st.data())
def test_any_of_much_damage_to_a_checkpoint_is_refused(kept, data):
    is_refused(kept, data.draw(damaged(kept[3])))


def without(name, members):
    return {key: value for key, value in members.items() if key != name}


FACTS, LEFT = "latest/facts.json", "latest/fit/point/latent/left.npy"
BETTER = {"bound": 1e9, "status": "certified"}


def improved(members):
    facts = json.loads(members[FACTS])
    return members | {FACTS: json.dumps(facts | {"fit": facts["fit"] | BETTER})}


@pytest.mark.parametrize(
    "change",
    [
        improved,
        lambda members: without(FACTS, members),
        lambda members: without(LEFT, members),
        lambda members: without(LEFT, members) | {LEFT.replace("left", "LEFT"): members[LEFT]},
        lambda members: members | {LEFT: members[LEFT].replace(b"<f8", b"<i8")},
        lambda members: {"thesis.txt": b"years"},
    ],
)
def test_a_checkpoint_that_other_hands_have_packed_is_refused(kept, change):
    """Each is a zip file without a fault."""
    with zipfile.ZipFile(BytesIO(kept[3])) as file:
        members = {name: file.read(name) for name in file.namelist()}
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, value in change(members).items():
            file.writestr(name, value)
    is_refused(kept, packed.getvalue())


def test_what_differs_from_a_checkpoint_is_said_and_nothing_else(kept):
    model, data, file, content = kept
    file.write_bytes(content)
    heavier = attrs.evolve(model, terms=[mc.NuclearNorm(0.7)])
    others = {"values": RowsInMemory({"x": 2.0 * X}, 2), "partitions": RowsInMemory({"x": X}, 3)}
    of_model, of_data = "different model", "different data"
    for own, rows, said in [
        (heavier, data, (of_model,)),
        (model, others["values"], (of_data,)),
        (model, others["partitions"], (of_data,)),
        (heavier, others["values"], (of_model, of_data)),
    ]:
        with pytest.raises(mc.DataError, match="holds another fit of partitions") as error:
            mc.fit(own, rows, checkpoint=file)
        assert [text in str(error.value) for text in (of_model, of_data)] == [
            text in said for text in (of_model, of_data)
        ]
    with pytest.raises(mc.DataError, match="partitions: random_state is 0 there and 1 here"):
        mc.fit(model, data, random_state=1, checkpoint=file)
    assert file.read_bytes() == content


def test_a_checkpoint_that_another_process_writes_is_left_alone(kept, tmp_path):
    model, data, _, content = kept
    file = tmp_path / "fit.npz"
    file.write_bytes(content)
    with held(tmp_path / "fit.npz.writing") as other:
        other.write(b"half")
        other.flush()
        with pytest.warns(UserWarning, match="is being written by another process.*goes on"):
            fit = mc.fit(model, data, tol=1e-9, checkpoint=file)
        with pytest.raises(mc.DataError, match="is being written by another process; give each"):
            Archive(file).add("a", {})
        assert (tmp_path / "fit.npz.writing").read_bytes() == b"half"
    assert fit.status == "certified"
    assert file.read_bytes() == content
    mc.fit(model, data, tol=1e-9, checkpoint=file)
    assert list(tmp_path.iterdir()) == [file], "what one has left that died is cleared away"


def test_what_is_damaged_meanwhile_is_not_added_to(tmp_path):
    """A new checksum over old damage would hide it."""
    archive = Archive.at_path(tmp_path / "path.npz", "path", {})
    archive.add("0", np.ones(9))
    content = archive.path.read_bytes().replace(np.ones(9).tobytes(), np.zeros(9).tobytes())
    archive.path.write_bytes(content)
    with pytest.raises(mc.DataError, match="it is damaged"):
        archive.add("1", np.ones(9))
    assert archive.path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [archive.path]


def test_two_writers_of_one_file_leave_whole_ones(tmp_path):
    """What is there at any moment is whole; who comes in between two steps of a write is told."""
    file = tmp_path / "fit.npz"

    def write_often(number):
        archive, said = Archive.at_path(file, "fit", {}), []
        for k in range(40):
            try:
                archive.replace("latest", (np.full(50_000, k), k))
            except mc.DataError as error:
                said.append(str(error))
            found, number = archive.read("latest", "tuple")
            assert (found == number).all()
        return said

    Archive.at_path(file, "fit", {}).add("latest", (np.zeros(1), 0))
    with ThreadPoolExecutor(2) as pool:
        said = [line for lines in pool.map(write_often, range(2)) for line in lines]
    assert all("is being written by another process" in line for line in said)
    assert list(tmp_path.iterdir()) == [file]


def test_objects_of_other_classes_are_not_stored(tmp_path):
    archive = Archive.at_path(tmp_path / "one.npz", "fit", {})
    with pytest.raises(mc.ModelError, match="is a Plain: files hold mcframe's classes"):
        archive.add("a", {"x": np.array([None, Plain(1)], dtype=object)})
