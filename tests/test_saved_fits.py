"""Fits in folders: factors by partitions, whole or not at all."""

import json
import shutil

import numpy as np
import pytest

import mcframe as mc
from mcframe import datasets
from mcframe.datasets.partitions import folder as folders
from mcframe.datasets.partitions import saving
from mcframe.model.partitioned import RowsInMemory
from tests.test_partitions import N_ROWS, model_of, table

HEADER = "mcframe-fit.json"


def fit_of(n_partitions=3, seed=0, effects="biases"):
    data = {"x": table("gaussian", seed=seed)}
    model = model_of("gaussian", effects)
    return mc.fit(model, RowsInMemory(data, n_partitions), tol=1e-3), data["x"]


@pytest.fixture(scope="module")
def fitted():
    return fit_of()


@pytest.fixture
def folder(tmp_path, fitted):
    return datasets.save_fit(tmp_path / "fit", fitted[0])


def test_a_saved_fit_answers_as_the_compact_one(folder, fitted):
    fit, x = fitted
    again, small = datasets.load_fit(folder), fit.compact()
    for ask in (
        lambda own: own.predict("x", [0, 40], [1, 2]),
        lambda own: own.predict_pairs("x", [(0, 1), (40, 2)]),
        lambda own: own.predict_rows("x", {"x": x[:3]}),
        lambda own: own.top("x", [7, 40], n=3, observed=True),
        lambda own: own.bias("x"),
        lambda own: own.latent.left,
        lambda own: [own.gap, own.objective, own.bound, own.rank],
    ):
        np.testing.assert_array_equal(ask(again), ask(small))
    assert repr(again) == repr(fit)
    with pytest.raises(mc.ModelError, match="left its data behind"):
        again.impute("x")


@pytest.mark.parametrize("effects", ["none", "effects of rows"])
def test_factors_are_plain_arrays_by_partitions(tmp_path, effects):
    fit, _ = fit_of(5, effects=effects)
    place = datasets.save_fit(tmp_path, fit)
    lefts = [np.load(place / f"p{p:05d}.left.npy", mmap_mode="r") for p in range(5)]
    assert [len(left) for left in lefts] == [9, 10, 9, 10, 10]
    z = np.vstack(lefts) @ np.load(place / "right.npy").T
    np.testing.assert_allclose(z, fit.latent.dense(), atol=1e-12)
    assert json.loads((place / HEADER).read_text())["starts"] == [0, 9, 19, 28, 38, N_ROWS]
    again = datasets.load_fit(place)
    np.testing.assert_array_equal(again.predict("x", [47], [3]), fit.predict("x", [47], [3]))


def test_fits_in_memory_and_compact_ones_are_one_file_of_rows(tmp_path, fitted):
    x = table("gaussian")
    whole = mc.fit(model_of("gaussian"), {"x": x}, tol=1e-3)
    for k, fit in enumerate((whole, fitted[0].compact())):
        place = datasets.save_fit(tmp_path / str(k), fit)
        assert [file.name for file in place.glob("*left*")] == ["p00000.left.npy"]
        again = datasets.load_fit(place)
        np.testing.assert_array_equal(again.predict("x"), fit.predict("x"))
        np.testing.assert_array_equal(datasets.load_fit(place).latent.left, fit.latent.left)
    zero = mc.fit(
        model_of("gaussian").__class__(whole.model.blocks, [mc.NuclearNorm(1e6)]), {"x": x}
    )
    again = datasets.load_fit(datasets.save_fit(tmp_path / "zero", zero))
    assert again.rank == 0
    np.testing.assert_array_equal(again.predict("x"), zero.predict("x"))


def test_a_fit_is_overwritten_only_when_asked_and_others_never(folder, tmp_path, fitted):
    other, _ = fit_of(2, seed=1)
    with pytest.raises(mc.DataError, match=r"holds a fit already.*overwrite=True"):
        datasets.save_fit(folder, other)
    datasets.save_fit(folder, other, overwrite=True)
    assert not (folder / "p00002.left.npy").exists()
    assert datasets.load_fit(folder).objective == other.objective
    data = datasets.write_partitions(tmp_path / "data", {"x": [fitted[1]]}, n_partitions=2)
    with pytest.raises(mc.DataError, match=r"not written by save_fit"):
        datasets.save_fit(data.folder, other, overwrite=True)
    with pytest.raises(mc.DataError, match=r"not written by write_partitions"):
        datasets.write_partitions(folder, {"x": [fitted[1]]}, overwrite=True)
    assert datasets.on_disk(data.folder, verify=True).fingerprint == data.fingerprint


@pytest.mark.parametrize("at", ["right.npy", "rest.npy"])
def test_a_writing_that_fails_leaves_what_was_there(folder, fitted, monkeypatch, at):
    def fail(path, array):
        if path.name == at:
            raise OSError(28, "No space left on device")
        return save(path, array)

    save = saving.save_array
    monkeypatch.setattr(saving, "save_array", fail)
    with pytest.raises(
        mc.DataError, match=r"the disk of folder .* is full.*factors take \d+ bytes"
    ):
        datasets.save_fit(folder, fit_of(seed=1)[0], overwrite=True)
    assert datasets.load_fit(folder).objective == fitted[0].objective
    assert not (folder / folders.WORKSHOP).exists()


def test_a_writing_that_is_killed_is_no_fit(folder, fitted, monkeypatch):
    """Between the old header's end and the new one's begin there is none."""
    replaced = []

    def die(source, target):
        replaced.append(target)
        if len(replaced) == 2:
            raise KeyboardInterrupt
        return replace(source, target)

    replace = folders.os.replace
    monkeypatch.setattr(folders.os, "replace", die)
    with pytest.raises(KeyboardInterrupt):
        datasets.save_fit(folder, fit_of(seed=1)[0], overwrite=True)
    monkeypatch.undo()
    with pytest.raises(mc.DataError, match=r"holds no mcframe fit: mcframe-fit\.json is not"):
        datasets.load_fit(folder)
    datasets.save_fit(folder, fitted[0], overwrite=True)
    assert datasets.load_fit(folder).objective == fitted[0].objective


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda path: (path / "p00001.left.npy").unlink(), r"p00001.left.npy is not there"),
        (lambda path: (path / "rest.npy").write_bytes(b""), r"rest.npy has 0 bytes"),
        (lambda path: flip(path / "right.npy"), r"right.npy holds other bytes"),
        (lambda path: flip(path / "rest.npy"), r"rest.npy holds other bytes"),
        (lambda path: (path / HEADER).write_text("{"), r"its manifest .* cannot be read"),
        (lambda path: (path / HEADER).write_text('{"kind": "x"}'), r"says no mcframe fit"),
        (lambda path: edit(path, format=2, checksum=None), r"in format 2.*reads format 3"),
        (lambda path: edit(path, starts=[0, 48]), r"does not agree with itself"),
        (lambda path: (path / HEADER).unlink(), r"holds no mcframe fit"),
        (shutil.rmtree, r"there is no folder .*save_fit writes one"),
    ],
)
def test_what_is_damaged_is_told(folder, change, sentence):
    change(folder)
    with pytest.raises(mc.DataError, match=sentence):
        datasets.load_fit(folder)


def test_what_another_version_pickled_is_told(folder, monkeypatch):
    def fail(given):
        raise AttributeError("Fit has no such thing")

    monkeypatch.setattr(saving.pickle, "loads", fail)
    with pytest.raises(mc.DataError, match=r"cannot read it \(AttributeError.*numpy.load"):
        datasets.load_fit(folder)


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def edit(folder, **changes):
    facts = json.loads((folder / HEADER).read_text())
    (folder / HEADER).write_text(json.dumps({**facts, **changes}))
