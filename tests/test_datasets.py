"""Readers: what they give, and what they say of what they cannot read."""

import os
from pathlib import Path

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.datasets import MultiLabel, digits, folder, hide, read_multilabel

needs_data = pytest.mark.skipif(
    not os.environ.get("MCFRAME_DATA"),
    reason="real files: set MCFRAME_DATA to the folder that holds them",
)


def written(path: Path, **arrays: object) -> Path:
    np.savez(path, **arrays)
    return path


def test_digits_are_scaled_and_one_against_the_rest():
    data = digits()
    assert data.features.shape == (1797, 64)
    assert data.labels.shape == (1797, 10)
    assert data.features.min() == 0.0
    assert data.features.max() == 1.0
    assert np.array_equal(data.labels.sum(axis=1), np.ones(1797))
    assert data.label_names == tuple("0123456789")
    assert len(data.feature_names) == 64


def test_a_table_is_frozen_and_keeps_its_names_with_some_rows():
    data = digits()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        data.name = "other"
    some = data.rows([5, 3])
    assert np.array_equal(some.features, data.features[[5, 3]])
    assert np.array_equal(some.labels, data.labels[[5, 3]])
    assert some.feature_names == data.feature_names


def test_a_file_comes_back_as_it_was_written(tmp_path):
    x = np.array([[1.0, np.nan], [3.0, 4.0], [5.0, 6.0]])
    y = np.array([[0], [1], [1]], dtype=np.int8)
    path = written(tmp_path / "mine.npz", X=x, Y=y, feature_names=["a", "b"], label_names=["c"])
    data = read_multilabel(path)
    assert np.array_equal(data.features, x, equal_nan=True)
    assert np.array_equal(data.labels, y)
    assert (data.name, data.feature_names, data.label_names) == ("mine", ("a", "b"), ("c",))
    assert repr(data) == (
        "mine: 3 items, 2 features (17% missing), 1 labels (0% missing, 67% of the rest are 1)"
    )


def test_columns_without_names_are_numbered(tmp_path):
    path = written(tmp_path / "mine.npz", X=np.eye(2), Y=np.eye(2))
    assert read_multilabel(path).feature_names == ("feature_0", "feature_1")
    assert read_multilabel(path).label_names == ("label_0", "label_1")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Y": np.eye(2)}, "no array 'X', it holds 'Y'; write one with numpy.savez"),
        ({"X": np.eye(2)}, "no array 'Y'"),
        ({"X": np.eye(2), "Y": np.eye(3)}, "features of 2 items and labels of 3"),
        ({"X": np.ones(2), "Y": np.eye(2)}, r"shape \(2,\) was given; \(n_items, n_columns\)"),
        ({"X": np.ones((2, 0)), "Y": np.eye(2)}, r"shape \(2, 0\)"),
        ({"X": np.eye(2), "Y": [[0, 1], [2, 0]]}, "label 2 in row 1, column 0; recode"),
        ({"X": [["a"], ["b"]], "Y": np.eye(2)}, "numbers are needed"),
        ({"X": [[np.inf], [1]], "Y": np.eye(2)}, "infinite.*NaN"),
        ({"X": np.eye(2), "Y": np.eye(2), "feature_names": ["a"]}, "1 feature_names .* 2 columns"),
        ({"X": np.array([[None], [1.0]], dtype=object), "Y": np.eye(2)}, "cannot be read"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path, arrays, message):
    path = written(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(mc.DataError, match=message) as caught:
        read_multilabel(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"id,age\n1,2\n", b"\x93NUMPY"])
def test_what_is_no_npz_is_said_to_be_none(tmp_path, content):
    path = tmp_path / "table.npz"
    path.write_bytes(content)
    with pytest.raises(mc.DataError, match=r"is not an npz file; write one with numpy.savez"):
        read_multilabel(path)


def test_a_damaged_archive_is_refused(tmp_path):
    path = written(
        tmp_path / "mine.npz", X=np.random.default_rng(0).random((30, 30)), Y=np.eye(30)
    )
    content = bytearray(path.read_bytes())
    content[200:260] = bytes(60)
    path.write_bytes(bytes(content))
    with pytest.raises(mc.DataError, match="cannot be read"):
        read_multilabel(path)


def test_a_missing_file_is_said_where_it_was_looked_for(tmp_path, monkeypatch):
    monkeypatch.delenv("MCFRAME_DATA", raising=False)
    with pytest.raises(mc.DataError, match=r"no file 'none.npz'.*MCFRAME_DATA"):
        read_multilabel("none.npz")
    with pytest.raises(mc.DataError, match="check the path"):
        read_multilabel(tmp_path / "none.npz")
    with pytest.raises(mc.DataError, match="is a folder"):
        read_multilabel(tmp_path)
    monkeypatch.setenv("MCFRAME_DATA", str(tmp_path))
    with pytest.raises(mc.DataError, match=f"nor is it in {str(tmp_path)!r}"):
        read_multilabel("none.npz")


def test_the_folder_is_the_one_that_the_environment_names(tmp_path, monkeypatch):
    monkeypatch.delenv("MCFRAME_DATA", raising=False)
    assert folder() is None
    monkeypatch.setenv("MCFRAME_DATA", str(tmp_path))
    assert folder() == tmp_path
    written(tmp_path / "mine.npz", X=np.eye(2), Y=np.eye(2))
    assert read_multilabel("mine.npz").n_items == 2
    monkeypatch.setenv("MCFRAME_DATA", str(tmp_path / "none"))
    with pytest.raises(mc.DataError, match="is no folder; set it"):
        folder()


def test_a_file_that_exists_goes_before_the_folder(tmp_path, monkeypatch):
    inside = tmp_path / "data"
    inside.mkdir()
    written(inside / "mine.npz", X=np.eye(3), Y=np.eye(3))
    written(tmp_path / "mine.npz", X=np.eye(2), Y=np.eye(2))
    monkeypatch.setenv("MCFRAME_DATA", str(inside))
    monkeypatch.chdir(tmp_path)
    assert read_multilabel("mine.npz").n_items == 2


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_hiding_takes_an_exact_share_of_what_is_known(share):
    entries = np.zeros((20, 7))
    entries[3:9, 2] = np.nan
    hidden = hide(entries, share, keep=(0, 0), random_state=4).cells
    assert hidden.sum() == round(share * (140 - 6))
    assert not (hidden & np.isnan(entries)).any()
    assert np.array_equal(hidden, hide(entries, share, keep=(0, 0), random_state=4).cells)


def test_hiding_follows_its_seed_and_moves_a_generator_on():
    entries = np.zeros((20, 7))
    one, other = (hide(entries, 0.5, random_state=seed).cells for seed in (1, 2))
    assert not np.array_equal(one, other)
    rng = np.random.default_rng(1)
    one, other = (hide(entries, 0.5, random_state=rng).cells for _ in range(2))
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("share", [-0.1, 1.0, 50, np.nan])
def test_hiding_refuses_what_is_no_share(share):
    with pytest.raises(mc.DataError, match="a share from 0 up to 1"):
        hide(np.zeros((2, 2)), share)


def test_a_table_of_one_class_prints():
    data = MultiLabel("m", np.eye(2), np.full((2, 1), np.nan))
    assert "100% missing, 0% of the rest" in repr(data)


@needs_data
@pytest.mark.parametrize(
    ("name", "shape", "n_labels", "cardinality"),
    [("emotions", (593, 72), 6, 1.8685), ("yeast", (2417, 103), 14, 4.2371)],
)
def test_real_files_have_their_published_numbers(name, shape, n_labels, cardinality):
    data = read_multilabel(f"{name}.npz")
    assert data.features.shape == shape
    assert data.labels.shape == (shape[0], n_labels)
    assert len(data.label_names) == n_labels
    assert data.labels.sum(axis=1).mean() == pytest.approx(cardinality, abs=5e-5)
