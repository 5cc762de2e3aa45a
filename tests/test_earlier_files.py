"""Files that earlier versions have written are read, with the same answers."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import mcframe as mc

from .data import write_files
from .data.write_files import GAUSSIAN, NORM, X

pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{k}") for k in ("UserWarning", "RuntimeWarning")
]
DATA = Path(write_files.__file__).parent
FOLDERS = sorted(path for path in DATA.iterdir() if path.name.startswith("format_"))
FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.npz"))]
ANSWERS = [path for path in FILES if not path.stem.startswith(("checkpoint", "expected"))]
CHECKPOINTS = [path for path in FILES if path.stem.startswith("checkpoint")]
KINDS = {"fit": mc.Fit, "posterior": mc.Posterior, "completion": mc.Completion}


def in_folder(path):
    return f"{path.parent.name}/{path.stem}"


def expected(path):
    with np.load(path.parent / "expected.npz") as arrays:
        return arrays.get(path.stem)


@pytest.mark.parametrize("path", ANSWERS, ids=in_folder)
def test_answers_are_read_and_written_anew(path, tmp_path):
    kind = path.stem.partition("_")[0]
    answer = mc.load(path, KINDS[kind])
    again = mc.load(answer.save(tmp_path / "again.npz"), KINDS[kind])
    assert repr(again) == repr(answer)
    predicted = expected(path)
    if predicted is None:
        assert path.stem == "fit_partitions"  # whose predictions need its offsets
        return
    for one in (answer, again):
        shown = one.table["size"] if kind == "completion" else one.predict("x")
        np.testing.assert_allclose(np.asarray(shown, dtype=float), predicted, rtol=1e-9)


@pytest.mark.parametrize("name", ["fit_fpc", "fit_calibration"])
def test_a_fit_goes_on(name):
    """From its Z and its bound; the solver's state in the file is not read."""
    start = mc.load(DATA / "format_8" / f"{name}.npz", mc.Fit)
    options = {"backend": start.backend, "max_iter": 4, "tol": 1e-12}
    rest = mc.fit(start.model, {"x": X}, start=start, **options)
    assert rest.objective <= start.objective
    assert rest.bound >= start.bound
    assert rest.history[0].gap == start.gap


@pytest.mark.parametrize("name", ["completion_posterior", "completion_optimum"])
def test_new_rows_are_completed(name):
    completed = mc.load(DATA / "format_8" / f"{name}.npz", mc.Completion)
    assert not completed.complete_rows(completed.table.head(2)).isna().any(axis=None)


@pytest.mark.parametrize("path", CHECKPOINTS, ids=in_folder)
def test_checkpoints_go_on(path, tmp_path):
    """From their best point and bound; states of solvers stay behind in those of format 8."""
    file = Path(shutil.copy(path, tmp_path))
    name = path.stem.removeprefix("checkpoint_")
    if name == "posterior":
        model = mc.Model([mc.Block("x", mc.Gaussian(variance=None))], [mc.NuclearNorm()])
        options = {"factors": 2, "max_iter": 1, "tol": 1e-12}
        assert len(mc.posterior(model, {"x": X}, checkpoint=file, **options).history) == 5
        return
    model, options = mc.Model([GAUSSIAN], [NORM]), {"weights": write_files.Grid(count=3)}
    if name == "path":
        fits = mc.path(model, {"x": X}, tol=1e-3, checkpoint=file, **options)
        np.testing.assert_allclose(fits[2].predict("x"), expected(path), rtol=1e-9)
        return
    if name == "cross_validation":
        before = file.read_bytes()
        mc.cross_validate(model, {"x": X}, tol=1e-3, checkpoint=file, **options)
        assert file.read_bytes() == before, "all fits were there"
        return
    terms, data, backend = write_files.CHECKPOINTS[name]
    options = {"backend": backend, "checkpoint": file, "tol": 1e-12}
    begun = mc.fit(mc.Model([GAUSSIAN], terms), data, max_iter=0, **options)
    np.testing.assert_allclose(begun.predict("x"), expected(path), rtol=1e-9)
    # Written anew, it holds the state of the solver again.
    rest = mc.fit(mc.Model([GAUSSIAN], terms), data, max_iter=6, **options)
    assert rest.objective <= begun.objective


def with_entries_of(written, earlier):
    """What is written without the entries of words that came after an earlier text."""
    if isinstance(earlier, dict):
        return {name: with_entries_of(written[name], earlier[name]) for name in earlier}
    if isinstance(earlier, list):
        return [with_entries_of(*pair) for pair in zip(written, earlier, strict=True)]
    return written


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_models_as_text_are_read(folder):
    text = (folder / "model.json").read_text()
    model = mc.Model.from_json(text)
    facts, again = json.loads(text), json.loads(model.to_json())
    assert with_entries_of(again["model"], facts["model"]) == facts["model"]
    assert again["format"] > facts["format"]
