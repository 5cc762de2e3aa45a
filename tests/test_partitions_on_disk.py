"""Tables written to a folder in partitions: any order gives the same bytes, faults leave none."""

import errno
import json
import os
import pickle
import subprocess
import sys
import weakref
from pathlib import Path

import dask.array
import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import mcframe as mc
from mcframe import datasets
from mcframe.partitions import on_disk as folders
from mcframe.partitions import writing
from mcframe.partitions.on_disk import PARTITIONS_LAYOUT, STAGING_FOLDER, checksum_of_facts
from mcframe.partitions.partitioned_data import PartitionedData, RowsInMemory
from mcframe.partitions.writing import cuts_of_rows

from .strategies import damaged

MANIFEST = PARTITIONS_LAYOUT.manifest
TRIPLES = [(3, 1, 2.5), (0, 0, -1.0), (2, 2, 0.0), (0, 2, 4.0), (3, 0, 1e12)]


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "table"


def bytes_of(folder):
    """Every file of a folder by its name."""
    return {file.name: file.read_bytes() for file in Path(folder).iterdir()}


def dense_of(table, name):
    """A block of a table, all partitions together, NaN where nothing is observed."""
    whole = np.full(table.shape(name), np.nan)
    for p in range(table.n_partitions):
        part = table.part(p)[name]
        stored = sp.coo_array(part.values if isinstance(part, mc.Observations) else part)
        rows, columns = stored.coords
        assert part_shape(part) == (np.diff(table.rows(p))[0], whole.shape[1])
        whole[rows + table.rows(p)[0], columns] = stored.data
    return whole


def part_shape(part):
    return (part.values if isinstance(part, mc.Observations) else part).shape


def beside(table, name, what):
    """Weights, offsets or exposures of a block at its entries, in their order."""
    parts = [getattr(table.part(p)[name], what) for p in range(table.n_partitions)]
    return np.concatenate([getattr(part, "matrix", part).data for part in parts])


def tables(most_rows=8, most_columns=5):
    """Tables with holes and at least one entry; values exact in single precision and not."""
    shapes = hnp.array_shapes(min_dims=2, max_dims=2, max_side=most_rows)
    numbers = st.sampled_from([np.nan, np.nan, 0.0, -0.0, 1.0, 0.1, 1e12 + 1.0, 1e-12, -3.5])
    arrays = shapes.flatmap(
        lambda shape: hnp.arrays(float, (shape[0], min(shape[1], most_columns)), elements=numbers)
    )
    return arrays.filter(lambda array: not np.isnan(array).all())


@pytest.mark.slow(seconds=3)
@settings(max_examples=40)
@given(tables(), st.randoms(use_true_random=False), st.integers(1, 4), st.integers(1, 4))
def test_any_order_and_any_chunks_give_the_same_bytes(tmp_path_factory, table, random, size, n):
    rows, columns = np.nonzero(~np.isnan(table))
    n = min(n, np.unique(rows).size)
    options = {"n_partitions": n, "shapes": {"y": table.shape}}
    triples = list(zip(rows, columns, table[rows, columns], strict=True))
    random.shuffle(triples)
    chunks = [
        tuple(zip(*triples[k : k + size], strict=True)) for k in range(0, len(triples), size)
    ]
    blocks = [table[k : k + size] for k in range(0, len(table), size)]
    place = tmp_path_factory.mktemp("tables")
    written = [
        datasets.write_partitions({"y": source}, place / name, **options)
        for name, source in {"one": triples, "chunks": chunks, "rows": blocks}.items()
    ]
    assert bytes_of(written[0].folder) == bytes_of(written[1].folder)
    assert bytes_of(written[0].folder) == bytes_of(written[2].folder)
    assert written[0].fingerprint == written[2].fingerprint
    assert written[0].n_partitions == n
    np.testing.assert_array_equal(dense_of(written[0], "y"), table)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 12))
def test_each_partition_has_entries_and_all_rows_are_in_one(counts, n_partitions):
    counts = np.array(counts)
    occupied = np.count_nonzero(counts)
    if not occupied:
        return
    n_partitions = min(n_partitions, occupied)
    cuts = cuts_of_rows(counts, n_partitions)
    assert cuts[0] == 0
    assert cuts[-1] == counts.size
    assert len(cuts) == n_partitions + 1
    parts = np.diff(np.concatenate([[0], np.cumsum(counts)])[cuts])
    assert parts.min() > 0
    # No cut could be closer to equal parts than one row allows.
    assert parts.max() <= counts.sum() / n_partitions + 2 * counts.max()


def test_what_is_read_is_what_fit_is_given_and_cannot_be_changed(folder):
    table = datasets.write_partitions({"y": TRIPLES}, folder, n_partitions=2)
    assert isinstance(table, PartitionedData)
    assert (table.blocks, table.n_items, table.shape("y")) == (("y",), 4, (4, 3))
    assert sum(table.n_entries(p) for p in range(2)) == len(TRIPLES)
    part = table.part(0)["y"]
    frame = pd.read_parquet(folder / "p00000-b0.parquet")
    assert list(frame) == ["row", "column", "value"]
    np.testing.assert_array_equal(frame["row"], part.tocoo().coords[0])
    for array, expected in ((part.data, frame["value"]), (part.indices, frame["column"])):
        np.testing.assert_array_equal(array, expected)
        assert not array.flags.writeable
    with pytest.warns(mc.UnobservedWarning):
        problem = mc.Problem.bind(
            mc.Model([mc.Block("y", mc.Gaussian())], [mc.NuclearNorm(1.0)]), table.part(0)
        )
    assert problem.n_observed == table.n_entries(0)


@pytest.mark.parametrize(("value", "kept"), [(0.5, np.float32), (0.1, np.float64)])
def test_single_precision_only_where_it_is_exact(folder, value, kept):
    datasets.write_partitions({"y": [(0, 0, value), (1, 0, 1.0)]}, folder, n_partitions=2)
    for p in range(2):
        assert pd.read_parquet(folder / f"p{p:05d}-b0.parquet")["value"].dtype == kept


def test_blocks_have_common_partitions_and_their_own_entries(folder):
    x = np.array([[1.0, np.nan], [np.nan, 2.0], [3.0, 4.0], [5.0, 6.0]])
    chunks = [sp.csr_array(np.nan_to_num(x[:3])), sp.csr_array(np.nan_to_num(x[3:]))]
    table = datasets.write_partitions({"x": chunks, "y": TRIPLES}, folder, n_partitions=3)
    np.testing.assert_array_equal(dense_of(table, "x"), x)
    assert dense_of(table, "y").shape == (4, 3)
    assert [table.rows(p) for p in range(3)] == [(0, 2), (2, 3), (3, 4)]
    assert [table.n_entries(p) for p in range(3)] == [4, 3, 4]


def test_weights_offsets_and_exposures_stay_with_their_entries(folder):
    rng = np.random.default_rng(2)
    values, numbers = rng.integers(0, 9, (6, 3)) * 1.0, rng.random((2, 6, 3)) + 0.5
    values[rng.random(values.shape) < 0.3] = np.nan
    rows, columns = np.nonzero(~np.isnan(values))
    order = rng.permutation(rows.size)
    at = rows[order], columns[order]
    chunk = {"row": at[0], "column": at[1], "value": values[at]}
    triples = [{**chunk, "weight": numbers[0][at], "exposure": numbers[1][at]}]
    blocks = [
        mc.Observations(values[rows], weights=numbers[0][rows], exposure=numbers[1][rows])
        for rows in (slice(0, 4), slice(4, 6))
    ]
    one = datasets.write_partitions({"y": triples}, folder / "1", n_partitions=2)
    two = datasets.write_partitions({"y": blocks}, folder / "2", n_partitions=2)
    assert bytes_of(folder / "1") == bytes_of(folder / "2")
    np.testing.assert_array_equal(beside(one, "y", "weights"), numbers[0][rows, columns])
    np.testing.assert_array_equal(beside(two, "y", "exposure"), numbers[1][rows, columns])


def test_entries_of_weight_zero_are_left_out(folder):
    chunk = {"row": [0, 1, 1], "column": [0, 0, 0], "value": [1.0, 2.0, 3.0]}
    table = datasets.write_partitions({"y": [{**chunk, "weight": [1.0, 0.0, 2.0]}]}, folder)
    np.testing.assert_array_equal(dense_of(table, "y"), [[1.0], [3.0]])


def test_rows_of_weights_spread_over_a_block_of_rows(folder):
    block = mc.Observations(np.ones((2, 3)), weights=np.array([[1.0], [2.0]]), offset=0.25)
    table = datasets.write_partitions({"y": [block]}, folder)
    assert beside(table, "y", "weights").tolist() == [1.0, 1.0, 1.0, 2.0, 2.0, 2.0]
    assert beside(table, "y", "offset").tolist() == [0.25] * 6


def test_exposures_of_entries_are_offsets_of_a_logarithm_alone(folder):
    """Binding checks the link, and knows nothing of cells without an entry: exposure 1."""
    values = np.array([[2.0, np.nan], [3.0, 4.0]])
    block = mc.Observations(values, exposure=np.array([[4.0, 5.0], [6.0, 7.0]]))
    part = datasets.write_partitions({"y": [block]}, folder).part(0)

    def bound(likelihood):
        return mc.Problem.bind(mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(1.0)]), part)

    table = bound(mc.Poisson()).tables["y"]
    np.testing.assert_array_equal(table.offset.dense(), np.log([[4.0, 1.0], [6.0, 7.0]]))
    with pytest.raises(mc.DataError, match=r"'y': an exposure was given.*Gaussian"):
        bound(mc.Gaussian())


def test_sums_do_not_depend_on_the_order(folder):
    many = [(0, 0, value) for value in (1e16, 1.0, -1e16, 1.0, 0.1)] + [(1, 0, 2.0)]
    one, two = (
        datasets.write_partitions({"y": some}, folder / name, duplicates="sum")
        for name, some in {"1": many, "2": many[::-1]}.items()
    )
    assert bytes_of(one.folder) == bytes_of(two.folder)
    assert one.n_entries(0) == 2


def test_parquet_is_read_in_batches(tmp_path, monkeypatch):
    monkeypatch.setattr("mcframe.partitions.parquet.BATCH_ENTRIES", 2)
    frame = pd.DataFrame(TRIPLES, columns=["user", "film", "stars"])
    (tmp_path / "files").mkdir()
    for k in range(2):
        frame[k::2].assign(w=2.0).to_parquet(tmp_path / "files" / f"{k}.parquet", index=False)
    names = {"row": "user", "column": "film", "value": "stars"}
    triples = datasets.parquet_triples(tmp_path / "files", **names, weight="w")
    assert [len(chunk["row"]) for chunk in triples] == [2, 1, 2]
    one = datasets.write_partitions({"y": triples}, tmp_path / "1")
    two = datasets.write_partitions({"y": TRIPLES}, tmp_path / "2")
    np.testing.assert_array_equal(dense_of(one, "y"), dense_of(two, "y"))
    assert beside(one, "y", "weights").tolist() == [2.0] * len(TRIPLES)


@pytest.mark.parametrize("library", ["pandas", "pyarrow", "polars"])
def test_frames_are_chunks_of_triples(folder, library):
    frame = pd.DataFrame(TRIPLES, columns=["row", "column", "value"]).assign(weight=1.5)
    if library == "pyarrow":
        frame = pa.Table.from_pandas(frame)
    if library == "polars":
        frame = pytest.importorskip("polars").from_pandas(frame)
    table = datasets.write_partitions({"y": [frame]}, folder)
    assert beside(table, "y", "weights").tolist() == [1.5] * len(TRIPLES)
    assert dense_of(table, "y")[3, 0] == 1e12


def test_a_table_is_read_once_and_never_held(folder, monkeypatch):
    """Of 40 chunks one is alive when the next is asked for, and no table is as long as all."""
    monkeypatch.setattr(writing, "ENTRIES_PER_PARTITION", 100)
    monkeypatch.setattr(writing, "BATCH_ENTRIES", 64)
    longest, alive = [], []
    save = writing.save_table

    def saving(path, table):
        longest.append(table.num_rows)
        return save(path, table)

    def triples():
        for some in np.split(np.random.default_rng(1).permutation(4000), 40):
            values = some * 0.1
            alive.append(weakref.ref(values))
            assert sum(chunk() is not None for chunk in alive) <= 2
            yield some // 10, some % 10, values

    monkeypatch.setattr(writing, "save_table", saving)
    table = datasets.write_partitions({"y": triples()}, folder)
    assert table.n_partitions == 40
    assert longest == [100] * 40
    np.testing.assert_array_equal(dense_of(table, "y").ravel(), np.arange(4000) * 0.1)


def test_a_table_pickles_to_the_name_of_its_folder(folder):
    table = datasets.write_partitions({"y": TRIPLES}, folder, n_partitions=3)
    stream = pickle.dumps(table)
    assert len(stream) < 300
    again = pickle.loads(stream)
    assert again.fingerprint == table.fingerprint
    assert (again.part(1)["y"] != table.part(1)["y"]).nnz == 0
    datasets.write_partitions({"y": TRIPLES[1:]}, folder, overwrite=True)
    with pytest.raises(mc.DataError, match="holds another table here than where the work began"):
        pickle.loads(stream)


# What is wrong with a source, and the sentence.
ONES = np.ones((2, 2))
FAULTS = {
    "columns differ": ([ONES, np.ones((1, 3))], "chunk 1 has 3 columns and chunk 0 has 2"),
    "infinite in rows": (
        [ONES, np.array([[1.0, 2.0], [np.inf, -np.inf]])],
        "block 'y': value inf in chunk 1, row 3, column 0 and 1 more there; every one must be"
        " finite",
    ),
    "nan among triples": (
        [([0], [0], [1.0]), ([7], [2], [np.nan])],
        "value nan in chunk 1, row 7, column 2; .* leave out the entry",
    ),
    "nan stored": ([sp.csr_array([[np.nan, 1.0]])], "value nan in chunk 0, row 0, column 0"),
    "duplicates": (
        [(5, 0, 1.0), (0, 1, 2.0), (5, 0, 3.0), (0, 1, 2.0), (5, 0, 9.0)],
        "block 'y': 3 entries stand in a cell that has another one, the first in row 0, column 1;"
        " .*duplicates='sum'",
    ),
    "negative row": ([(0, 0, 1.0), (-1, 0, 1.0)], "row -1 in its triple 1; rows are counted"),
    "labels": ([(["a"], [0], [1.0])], "rows of type <U1; .* numbered first"),
    "halves of rows": ([([0.5], [0], [1.0])], "rows of type float64; whole numbers"),
    "columns above 31 bits": ([(0, 2**31, 1.0)], f"column {2**31} in its triple 0"),
    "rows that are labels": ([(10**12, 0, 1.0)], "rows are counted.* number them first"),
    "text": ([([0], [0], ["5"])], "value '5' in its triple 0; a number is needed"),
    "text among rows": ([np.array([[1.0, "a"]], dtype=object)], "chunk 0 holds 'a'"),
    "lengths": ([([0, 1], [0], [1.0])], "2 of row, 1 of column, 1 of value"),
    "rows and triples": ([ONES, ([0], [0], [1.0])], "chunk 0 and chunk 1 are blocks of rows and"),
    "unlike additions": (
        [mc.Observations(ONES, weights=1.0), ONES],
        "chunk 0 has weight with its values and chunk 1 has nothing",
    ),
    "negative weight": ([mc.Observations(ONES, weights=-1.0)], "weight -1 in chunk 0, row 0"),
    "no exposure": (
        [mc.Observations(ONES, exposure=[[1.0, 0.0]])],
        "exposure 0 in chunk 0, row 0, column 1 and 1 more there; every one must be above 0",
    ),
    "shape of weights": ([mc.Observations(ONES, weights=np.ones((3, 2)))], "chunk 0.*shape"),
    "offset and exposure": (
        [{"row": [0], "column": [0], "value": [1.0], "offset": [0.0], "exposure": [1.0]}],
        "has both offset and exposure",
    ),
    "unknown name": ([{"row": [0], "column": [0], "values": [1.0]}], "has 'row', .* 'values'"),
    "a vector": ([np.ones(3)], r"chunk 0 has the shape \(3,\)"),
    "blocks stored whole": ([sp.bsr_array(np.eye(4), blocksize=(2, 2))], "is in bsr format with"),
    "no columns": ([np.ones((3, 0))], r"chunk 0 has the shape \(3, 0\)"),
    "text as a source": ("y.parquet", "parquet_triples"),
    "an array as a source": (ONES, r"give \[data\]"),
    "no iterable": (3, "cannot be iterated over"),
    "empty": ([], "its source is empty"),
    "all missing": ([np.full((2, 2), np.nan)], "not one entry was given"),
    "a longer tuple": ([(0, 0, 1.0), (0, 1, 1.0, 2.0)], "among triples; each is a tuple"),
    "something else": ([object()], "chunk 0 is an object; a matrix of rows"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_input_is_refused_and_nothing_is_left(folder, fault):
    source, sentence = FAULTS[fault]
    with pytest.raises(mc.DataError, match=sentence) as raised:
        datasets.write_partitions({"y": source}, folder)
    assert "'y'" in str(raised.value)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("options", "kind", "sentence"),
    [
        ({"n_partitions": 4}, mc.DataError, "n_partitions=4 was given and 3 rows have entries"),
        ({"n_partitions": 0}, mc.ModelError, "n_partitions=0"),
        ({"duplicates": "last"}, mc.ModelError, "duplicates='last'.*'refuse' or 'sum'"),
        ({"shapes": {"y": (3, 3)}}, mc.DataError, "row 3 in chunk 0, and the table has 3 rows"),
        ({"shapes": {"y": (4, 2)}}, mc.DataError, "column 2 in chunk 0, and the table has 2"),
        ({"shapes": {"z": (4, 2)}}, mc.ModelError, "no block 'z'"),
        ({"shapes": {"y": 4}}, mc.ModelError, r"\(rows, columns\) is needed"),
        ({"shapes": {"y": (2**62, 2**20)}}, mc.DataError, "more cells than can be counted"),
    ],
    ids=lambda given: next(iter(given)) if isinstance(given, dict) else "",
)
def test_options_that_cannot_be_meant_are_refused(folder, options, kind, sentence):
    with pytest.raises(kind, match=sentence):
        datasets.write_partitions({"y": TRIPLES}, folder, **options)
    assert not folder.exists()


@pytest.mark.parametrize(
    ("data", "shapes", "sentence"),
    [
        ({"x": [ONES], "y": [np.ones((3, 1))]}, {}, "'x' has 2 rows but block 'y' has 3"),
        ({"x": [ONES], "y": TRIPLES}, {}, "'y' has an entry in row 3 but block 'x' has 2 rows"),
        ({"x": [ONES]}, {"x": (3, 2)}, "2 rows were given and shapes says 3"),
        ({"x": [ONES]}, {"x": (2, 3)}, "chunk 0 has 2 columns and shapes says 3"),
    ],
)
def test_blocks_have_the_rows_that_they_say(folder, data, shapes, sentence):
    with pytest.raises(mc.DataError, match=sentence):
        datasets.write_partitions(data, folder, shapes=shapes)
    assert not folder.exists()


def test_sums_of_weighted_entries_are_refused(folder):
    chunk = {"row": [0], "column": [0], "value": [1.0], "weight": [1.0]}
    with pytest.raises(mc.DataError, match="weight, which have no sum"):
        datasets.write_partitions({"y": [chunk]}, folder, duplicates="sum")


def test_files_of_others_are_never_touched(folder):
    folder.mkdir()
    (folder / "thesis.txt").write_text("years")
    for overwrite in (False, True):
        with pytest.raises(mc.DataError, match=r"holds 'thesis\.txt', not written by"):
            datasets.write_partitions({"y": TRIPLES}, folder, overwrite=overwrite)
    assert bytes_of(folder) == {"thesis.txt": b"years"}
    with pytest.raises(mc.DataError, match="is a file"):
        datasets.write_partitions({"y": TRIPLES}, folder / "thesis.txt")


def test_partitions_are_overwritten_only_when_asked_and_only_by_finished_ones(folder):
    datasets.write_partitions({"y": TRIPLES}, folder, n_partitions=3)
    before = bytes_of(folder)
    with pytest.raises(mc.DataError, match=r"holds partitions already.*overwrite=True"):
        datasets.write_partitions({"y": TRIPLES}, folder)
    with pytest.raises(mc.DataError, match="stand in a cell"):
        datasets.write_partitions({"y": TRIPLES * 2}, folder, overwrite=True)
    assert bytes_of(folder) == before
    table = datasets.write_partitions({"z": TRIPLES}, folder, n_partitions=1, overwrite=True)
    assert table.blocks == ("z",)
    assert len(bytes_of(folder)) == 2  # one file and the manifest: none of the old are left


def test_an_interrupted_writing_leaves_nothing(folder):
    def interrupted():
        yield TRIPLES[0]
        yield TRIPLES[1]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.write_partitions({"y": interrupted()}, folder)
    assert not folder.exists()


@pytest.mark.parametrize("at", ["entries", "sorting", "file"])
def test_a_full_disk_says_how_many_bytes_were_needed(folder, monkeypatch, at):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    if at == "entries":
        monkeypatch.setattr(writing.pa.ipc.RecordBatchStreamWriter, "write_table", full)
    elif at == "sorting":
        monkeypatch.setattr(writing.duckdb, "connect", raising_as_the_engine_does)
    else:
        monkeypatch.setattr(writing, "save_table", full)
    needed = f"{len(TRIPLES)} entries were read, which need {3 * 20 * len(TRIPLES)} bytes"
    with pytest.raises(
        mc.DataError,
        match=f"the disk of folder .* is full.*No space left.*{needed}.* bytes are free",
    ):
        datasets.write_partitions({"y": TRIPLES}, folder)
    assert not folder.exists()


def test_an_interrupted_sorting_is_an_interruption_and_leaves_nothing(folder, monkeypatch):
    def interrupted(**_):
        raise RuntimeError("Query interrupted")

    monkeypatch.setattr(writing.duckdb, "connect", interrupted)
    with pytest.raises(KeyboardInterrupt):
        datasets.write_partitions({"y": TRIPLES}, folder)
    assert not folder.exists()


def raising_as_the_engine_does(**_):
    raise duckdb.IOException("IO Error: Could not write file: No space left on device")


FILLS = """
import resource, sys
import numpy as np
import mcframe as mc
from mcframe.partitions import writing

writing.SORT_MEMORY, batches = "32MB", writing.EntryBuffer.sorted_batches
cells = np.random.default_rng(0).permutation(2_000_000)

def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

def limited(*arguments):
    limit()
    return batches(*arguments)

if sys.argv[2] == "entries":
    limit()
writing.EntryBuffer.sorted_batches = limited
try:
    mc.datasets.write_partitions({"y": [(cells // 100, cells % 100, cells * 0.1)]}, sys.argv[1])
except mc.DataError as error:
    print(error)
"""


@pytest.mark.parametrize("where", ["entries", "engine"])
@pytest.mark.some(2, where=1)
def test_files_that_may_not_grow_are_a_full_disk(folder, where):
    """In a process of its own, whose files the system limits: first ours, then the engine's."""
    done = subprocess.run(
        [sys.executable, "-c", FILLS, str(folder), where], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("the disk of folder")
    assert ("(IO Error: " in done.stdout) == (where == "engine")
    assert "File too large" in done.stdout
    assert not folder.exists()


def test_too_small_a_disk_is_seen_before_the_sorting(folder, monkeypatch):
    free, usage = 2 * 20 * len(TRIPLES) - 1, folders.shutil.disk_usage(folder.parent)
    monkeypatch.setattr(folders.shutil, "disk_usage", lambda _: usage._replace(free=free))
    monkeypatch.setattr(
        writing.EntryBuffer, "partitions", lambda *_, **__: pytest.fail("sorting has begun")
    )
    with pytest.raises(mc.DataError, match=f"need 300 bytes.* {free} bytes are"):
        datasets.write_partitions({"y": TRIPLES}, folder)


def test_what_does_not_fit_into_memory_is_sorted_on_the_disk(folder, monkeypatch):
    """Less memory than the entries take; nothing of the engine stays in the folder."""
    monkeypatch.setattr(writing, "SORT_MEMORY", "32MB")
    cells = np.random.default_rng(0).permutation(2_000_000)
    table = datasets.write_partitions(
        {"y": [(cells // 1000, cells % 1000, cells * 0.1)]}, folder, n_partitions=3
    )
    assert {file.suffix for file in folder.iterdir()} == {".parquet", ".json"}
    values = np.concatenate([table.part(p)["y"].data for p in range(3)])
    np.testing.assert_array_equal(values, np.arange(2_000_000) * 0.1)


@pytest.mark.parametrize("change", ["cut", "deleted", "lengthened"])
def test_a_file_of_another_size_is_seen_at_once(folder, change):
    table = datasets.write_partitions({"y": TRIPLES}, folder, n_partitions=2)
    damaged = folder / "p00001-b0.parquet"
    content = damaged.read_bytes()
    damaged.unlink()
    if change != "deleted":
        damaged.write_bytes(content[:-1] if change == "cut" else content + b"0")
    sentence = "not there" if change == "deleted" else f"should have {len(content)}"
    with pytest.raises(mc.DataError, match=f"is damaged: its file {damaged.name} .*{sentence}"):
        datasets.on_disk(folder)
    table.part(0)
    with pytest.raises(mc.DataError, match=sentence):
        table.part(1)


def read_all(folder):
    """The entries of all partitions, and the labels, as they are read."""
    table = datasets.on_disk(folder)
    parts = [table.part(p)["y"] for p in range(table.n_partitions)]
    arrays = [array for part in parts for array in (part.indptr, part.indices, part.data)]
    return [array.tobytes() for array in arrays], list(table.row_labels)


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
    """A folder with labels, and what is read from it."""
    place = tmp_path_factory.mktemp("intact") / "table"
    rows = ["a", "b", "c", "d"]
    table = datasets.write_partitions({"y": TRIPLES}, place, n_partitions=2, row_labels=rows)
    return table.folder, read_all(table.folder)


def check_refused(intact, file, content):
    """A folder with other content in a file is refused by its name, or it says the same.

    The manifest alone may do so: it is JSON, of which white space is no part.
    """
    (folder, expected), said, found = intact, None, None
    before = (folder / file).read_bytes()
    (folder / file).write_bytes(content)
    try:
        found = read_all(folder)
    except mc.DataError as error:
        said = str(error)
    (folder / file).write_bytes(before)
    if said is None:
        assert found == expected
        assert json.loads(content) == json.loads(before)
    else:
        assert f"folder {str(folder)!r}" in said
        assert file in said
        assert "rite it again with" in said


def damage(folder, data):
    """Draw a file of a folder and other content for it."""
    file = data.draw(st.sampled_from(sorted(path.name for path in folder.iterdir())))
    return file, data.draw(damaged((folder / file).read_bytes()))


@settings(max_examples=60)
@given(st.data())
def test_any_damage_to_any_file_is_refused_by_name_when_it_is_read(intact, data):
    check_refused(intact, *damage(intact[0], data))


@pytest.mark.slow
@settings(max_examples=2000)
@given(st.data())
def test_any_of_much_damage_is_refused(intact, data):
    check_refused(intact, *damage(intact[0], data))


@pytest.mark.slow
def test_a_fit_of_a_damaged_folder_never_ends_its_process(tmp_path):
    """In a process of its own, since crashes are what is looked for."""
    done = subprocess.run(
        [sys.executable, "-c", FITS_OF_DAMAGED, str(tmp_path)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == ["300", "refused"]


FITS_OF_DAMAGED = """
import pathlib, sys, warnings
import numpy as np
import mcframe as mc

warnings.simplefilter("ignore")
rng, folder = np.random.default_rng(0), pathlib.Path(sys.argv[1], "table")
model = mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(5.0)])
x = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 12))
mc.datasets.write_partitions({"x": [np.where(rng.random(x.shape) < 0.6, np.nan, x)]}, folder,
                             n_partitions=3)
files, refused = sorted(folder.glob("*.parquet")), 0
for k in range(300):
    file = files[k % len(files)]
    before = file.read_bytes()
    bad = np.frombuffer(before, np.uint8).copy()
    places = rng.integers(0, bad.size, 1 + k % 5)
    bad[places] ^= rng.integers(1, 256, places.size).astype(np.uint8)
    file.write_bytes(bad.tobytes() if k % 4 else before[: places[0]])
    try:
        mc.fit(model, mc.datasets.on_disk(folder), max_iter=3)
    except mc.DataError as error:
        refused += file.name in str(error)
    file.write_bytes(before)
print(refused, "refused")
"""


def test_a_file_that_changes_after_it_was_read_is_refused_when_it_is_read_again(folder):
    """Neither what was read before nor the time at which it was changed hides it."""
    table = datasets.write_partitions({"y": TRIPLES}, folder, n_partitions=2)
    file = folder / "p00001-b0.parquet"
    before, times = file.read_bytes(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    whole = table.part(1)["y"].toarray()
    file.write_bytes(before[:-1] + b"?")
    os.utime(file, ns=times)
    with pytest.raises(mc.DataError, match=rf"{file.name} holds other bytes than were written"):
        table.part(1)
    with pytest.raises(mc.DataError, match=f"{file.name} holds other bytes"):
        datasets.on_disk(folder, verify=True)
    file.write_bytes(before)
    np.testing.assert_array_equal(table.part(1)["y"].toarray(), whole)
    file.unlink()
    file.mkdir()
    with pytest.raises(mc.DataError, match=rf"{file.name} (has|cannot be read)"):
        table.part(1)


def test_a_second_writer_is_refused_and_the_first_one_ends_whole(folder):
    """Whenever it comes: to an empty folder, to one that is written again, or to another's."""
    found = []

    def triples():
        yield TRIPLES[0]
        for options in ({"overwrite": True}, {}):
            with pytest.raises(mc.DataError) as refused:
                datasets.write_partitions({"y": TRIPLES[:2]}, folder, **options)
            found.append(str(refused.value))
        yield from TRIPLES[1:]

    for _ in range(2):
        table = datasets.write_partitions({"y": triples()}, folder, overwrite=True)
        assert datasets.on_disk(folder, verify=True).fingerprint == table.fingerprint
        assert table.n_entries(0) == len(TRIPLES)
        assert not (folder / STAGING_FOLDER).exists()
    assert f"another write_partitions is at work in folder {str(folder)!r}" in found[0]
    assert "rest of an unfinished writing" in found[1]


WRITER = """
import sys, time
import mcframe as mc

def triples():
    print("writing", flush=True)
    yield 0, 0, 1.0
    time.sleep(float(sys.argv[2]))

mc.datasets.write_partitions({"y": triples()}, sys.argv[1], overwrite=True)
"""


def test_a_writer_that_is_killed_leaves_nothing_that_looks_whole(folder):
    killed = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(folder), "60"], stdout=subprocess.PIPE, text=True
    )
    with killed:
        assert killed.stdout.readline() == "writing\n"
        with pytest.raises(mc.DataError, match="another write_partitions is at work"):
            datasets.write_partitions({"y": TRIPLES}, folder, overwrite=True)
        killed.kill()
    with pytest.raises(mc.DataError, match="is not finished"):
        datasets.on_disk(folder)
    with pytest.raises(mc.DataError, match="rest of an unfinished writing"):
        datasets.write_partitions({"y": TRIPLES}, folder)
    table = datasets.write_partitions({"y": TRIPLES}, folder, overwrite=True)
    assert datasets.on_disk(folder, verify=True).fingerprint == table.fingerprint
    assert not (folder / STAGING_FOLDER).exists()


def test_another_version_and_damaged_manifests_are_told(folder):
    datasets.write_partitions({"y": TRIPLES}, folder)
    manifest = json.loads((folder / MANIFEST).read_text())

    def refused(sentence, **changed):
        (folder / MANIFEST).write_text(json.dumps(manifest | changed))
        with pytest.raises(mc.DataError, match=sentence):
            datasets.on_disk(folder)

    later = {key: manifest[key] for key in manifest if key not in ("kind", "checksum")}
    later |= {"format": 4, "version": "9.1"}
    known = (
        r"written by mcframe 9.1: its manifest .* is in format 4, and mcframe .* reads format 3"
    )
    refused(known, **later, checksum=checksum_of_facts(later))
    refused("in format 1, and mcframe", format=1, checksum=None)
    refused("in format 2, and mcframe", format=2)
    refused("says no mcframe partitions", kind="something")
    refused("does not agree with itself", version="9.1")
    refused("does not agree with itself", starts=[0, 5])
    refused("does not agree with itself", files={})
    refused("does not agree with itself", blocks=3)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(mc.DataError, match=r"its manifest .* cannot be read"):
        datasets.on_disk(folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(mc.DataError, match=r"holds no mcframe partitions: .* is not there"):
        datasets.on_disk(folder)
    with pytest.raises(mc.DataError, match="there is no folder"):
        datasets.on_disk(folder / "elsewhere")


def test_a_damaged_folder_can_be_written_again(folder):
    datasets.write_partitions({"y": TRIPLES}, folder, n_partitions=2)
    (folder / MANIFEST).write_text("{")
    datasets.write_partitions({"y": TRIPLES}, folder, overwrite=True)
    assert datasets.on_disk(folder, verify=True).n_partitions == 1


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"row": "who"}, "no column 'who', its columns are 'user', .* by row=..."),
        ({"value": "gaps"}, "column 'gaps' is null in 1 rows of a batch"),
    ],
)
def test_parquet_without_the_columns_is_refused(tmp_path, change, sentence):
    frame = pa.table({"user": [0, 1], "film": [0, 0], "stars": [1.0, 2.0], "gaps": [1.0, None]})
    pyarrow.parquet.write_table(frame, tmp_path / "a.parquet")
    names = {"row": "user", "column": "film", "value": "stars"} | change
    with pytest.raises(mc.DataError, match=sentence):
        list(datasets.parquet_triples(tmp_path, **names))


def test_what_is_no_parquet_is_refused(tmp_path):
    with pytest.raises(mc.DataError, match="holds no file"):
        datasets.parquet_triples(tmp_path)
    with pytest.raises(mc.DataError, match="there is no file"):
        datasets.parquet_triples(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_text("no")
    with pytest.raises(mc.DataError, match="is no Parquet that can be read"):
        datasets.parquet_triples(tmp_path / "a.parquet")


@pytest.fixture
def classes():
    """A block of classes and one of dates, with holes, as data and as a fit."""
    rng = np.random.default_rng(4)
    dates = 1.7e9 + 1e5 * rng.standard_normal((7, 3))
    kinds = rng.integers(0, 3, (7, 2)) * 1.0
    dates[rng.random(dates.shape) < 0.3] = np.nan
    kinds[rng.random(kinds.shape) < 0.3] = np.nan
    blocks = [
        mc.Block("dates", mc.Gaussian(), bias=True, standardize=True),
        mc.Block("kinds", mc.Multinomial(3)),
    ]
    model = mc.Model(blocks, [mc.NuclearNorm(0.1)])
    data = {"dates": dates, "kinds": kinds}
    return data, mc.fit(model, data, tol=1e-2)


@pytest.mark.parametrize("name", ["dates", "kinds"])
def test_answers_to_parquet_are_those_of_impute(tmp_path, classes, name, monkeypatch):
    monkeypatch.setattr("mcframe.partitions.parquet.BATCH_ENTRIES", 6)
    data, fit = classes
    sources = {key: [block] for key, block in data.items()}
    table = datasets.write_partitions(sources, tmp_path / "table", n_partitions=3)
    missing = datasets.impute_to(fit, table, tmp_path / "missing", name)
    everything = datasets.impute_to(fit, table, tmp_path / "all", name, cells="all")
    filled, holes = fit.impute(name), np.isnan(data[name])
    found = pd.concat([pd.read_parquet(file) for file in missing])
    assert list(found) == ["row", "column", "value"]
    np.testing.assert_array_equal(np.argwhere(holes), found[["row", "column"]])
    np.testing.assert_allclose(found["value"], filled[holes], rtol=1e-14)
    found = pd.concat([pd.read_parquet(file) for file in everything])
    np.testing.assert_array_equal(found["observed"], ~holes.ravel())
    np.testing.assert_allclose(found["value"], filled.ravel(), rtol=1e-14)
    again = datasets.write_partitions(
        {"y": datasets.parquet_triples(tmp_path / "all")}, tmp_path / "again"
    )
    np.testing.assert_allclose(dense_of(again, "y"), filled, rtol=1e-14)


def test_answers_that_cannot_be_written_leave_nothing(tmp_path, classes, monkeypatch):
    data, fit = classes
    sources = {key: [block] for key, block in data.items()}
    table = datasets.write_partitions(sources, tmp_path / "table", n_partitions=2)
    for wanted, kind, sentence in [
        ({"block": "kind"}, mc.ModelError, "'kind'"),
        ({"fit": tmp_path}, mc.DataError, r"write impute_to\(fit, data, folder, block\)"),
        ({"cells": "some"}, mc.ModelError, "cells='some'.*'missing' or 'all'"),
        ({"folder": tmp_path / "table"}, mc.DataError, "not an empty folder"),
    ]:
        given = {"folder": tmp_path / "to", "fit": fit, "data": table, "block": "kinds"} | wanted
        with pytest.raises(kind, match=sentence):
            datasets.impute_to(**given)
    other = datasets.write_partitions({"kinds": [data["kinds"][:6]]}, tmp_path / "other")
    with pytest.raises(mc.DataError, match="the data are 6 x 2 and the fit is of 7 x 2"):
        datasets.impute_to(fit, other, tmp_path / "to", "kinds")
    with pytest.raises(mc.DataError, match=r"a dict was given.*fit\.impute\(name\)"):
        datasets.impute_to(fit, data, tmp_path / "to", "kinds")
    changed = data["kinds"].copy()
    changed[np.isnan(changed)] = 1.0
    for k, of in enumerate((fit, mc.fit(fit.model, table, tol=1e-2))):
        elsewhere = RowsInMemory({"kinds": changed, "dates": data["dates"]}, 2)
        with pytest.raises(mc.DataError, match="other entries than those of the fit"):
            datasets.impute_to(of, elsewhere, tmp_path / "to", "kinds")
        same = RowsInMemory(data, 3)
        datasets.impute_to(of, same, tmp_path / f"to {k}", "kinds")
    with pytest.raises(mc.DataError, match="the data have 'kinds' alone"):
        datasets.impute_to(fit, other, tmp_path / "to", "dates")
    whole = datasets.write_partitions(sources, tmp_path / "whole", n_partitions=2)
    (tmp_path / "table" / "p00001-b1.parquet").unlink()
    with pytest.raises(mc.DataError, match="is not there"):
        datasets.impute_to(fit, table, tmp_path / "to", "kinds")
    assert not (tmp_path / "to").exists()

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:  # none is seen before all are there
        patched.setattr("os.replace", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            datasets.impute_to(fit, whole, tmp_path / "to", "dates")
        assert not (tmp_path / "to").exists()
    monkeypatch.setattr(pyarrow.parquet.ParquetWriter, "write_table", full)
    with pytest.raises(mc.DataError, match=r"cannot be written .No space left on device.;"):
        datasets.impute_to(fit, whole, tmp_path / "to", "dates")
    assert not (tmp_path / "to").exists()


def test_blocks_without_rows_and_nullable_numbers_are_read(folder):
    frame = pd.DataFrame(TRIPLES, columns=["row", "column", "value"]).astype({"row": "Int64"})
    blocks = [np.ones((0, 2)), ONES, np.ones((0, 2))]
    table = datasets.write_partitions({"y": [frame]}, folder, n_partitions=1)
    assert table.n_entries(0) == len(TRIPLES)
    rows = datasets.write_partitions({"y": blocks}, folder, overwrite=True)
    assert rows.shape("y") == (2, 2)
    frame.loc[1, "row"] = pd.NA
    with pytest.raises(mc.DataError, match=r"rows of type float64; .* none of them missing"):
        datasets.write_partitions({"y": [frame]}, folder, overwrite=True)


@pytest.mark.parametrize("table", [np.array([[1e12]]), np.full((1, 4), 1e-12), np.ones((4, 1))])
def test_tables_of_one_row_or_column(folder, table):
    written = datasets.write_partitions({"y": [table]}, folder)
    np.testing.assert_array_equal(dense_of(written, "y"), table)


def labelled(folder, rows, columns, **options):
    """A block of five rows and three columns, of which column 2 of row 4 is not observed."""
    values = np.outer([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, 2.0])
    values[4, 2] = np.nan
    labels = {"row_labels": rows, "column_labels": {"x": columns}}
    return datasets.write_partitions({"x": [values]}, folder, n_partitions=2, **labels, **options)


@pytest.mark.parametrize(
    ("rows", "columns"),
    [
        (["ann", "bob", "", "Zoë 🎬", "eve"], np.array([10**15, -3, 7])),
        (pd.Index([9, 8, 7, 6, 5]), pd.Series(["Up", "Jaws", "Alien"])),
    ],
)
def test_a_fit_answers_by_the_labels_of_its_folder(folder, rows, columns):
    table = labelled(folder, rows, columns)
    rows, columns = list(rows), list(columns)
    again = pickle.loads(pickle.dumps(datasets.on_disk(folder, verify=True)))
    assert list(again.row_labels) == rows
    assert list(again.column_labels("x")) == columns
    assert len(pickle.dumps(again)) < 1_000, "labels stay in the folder"
    fit = mc.fit(mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.01)]), table)
    expected = fit.predict("x", rows=[4, 0], columns=[2, 1])
    pairs = [(rows[4], columns[2]), (rows[0], columns[1])]
    for own in (fit, pickle.loads(pickle.dumps(fit.compact()))):
        np.testing.assert_array_equal(own.predict_pairs("x", pairs), expected)
        best = own.top("x", rows[4], n=1, observed=True)
        assert best[0][:2] == (rows[4], columns[1])
    assert [found[:2] for found in fit.top("x", rows[4])] == [(rows[4], columns[2])]
    with pytest.raises(mc.DataError, match="the fit has no row 'nobody'"):
        fit.top("x", "nobody")
    assert fit.predict("x").shape == (5, 3)


def test_labels_are_part_of_what_a_folder_holds(folder):
    names, columns = ["a", "b", "c", "d", "e"], ["x", "y", "z"]
    first = labelled(folder, names, columns)
    other = labelled(folder, ["a", "b", "c", "d", "f"], columns, overwrite=True)
    assert first.fingerprint != other.fingerprint
    without = datasets.write_partitions({"x": [np.ones((2, 2))]}, folder, overwrite=True)
    assert without.row_labels is without.column_labels("x") is None
    assert not list(folder.glob("*labels*")), "those of the table before are gone"


@pytest.mark.parametrize(
    ("rows", "columns", "sentence"),
    [
        (["a", "b", "c", "a", "e"], [1, 2, 3], r"row_labels: 'a' stands at places 0 and 3"),
        (["a", "b"], [1, 2, 3], r"row_labels has 2 labels and the table 5 rows"),
        (range(5), ["a", "b"], r"column_labels\['x'\] has 2 labels and the table 3 columns"),
        (range(5), [1, 2.5, 3], r"column_labels\['x'\]: labels are text.*label 1 is 2.5"),
        (range(5), ["a", None, "c"], r"column_labels\['x'\]: labels are text.*label 1 is None"),
        (["a", 1, "c", 2, "e"], [1, 2, 3], r"row_labels: labels are text alone, or whole"),
        (range(5), [1, 2, 2**70], r"beyond 64 bits"),
    ],
)
def test_labels_that_name_nothing_are_refused(folder, rows, columns, sentence):
    with pytest.raises(mc.DataError, match=sentence):
        labelled(folder, rows, columns)
    assert not folder.exists() or not any(folder.iterdir())
    with pytest.raises(mc.ModelError, match="there is no block 'z'"):
        datasets.write_partitions({"x": [np.ones((1, 1))]}, folder, column_labels={"z": ["a"]})


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("in_list", [False, True])
def test_a_wide_frame_is_named_as_such(tmp_path, library, in_list):
    frame = library({"height": [1.5, 1.6], "weight": [60.0, 70.0]})
    with pytest.raises(mc.DataError, match=r"a wide frame was given, with the columns 'height'"):
        datasets.write_partitions({"y": [frame] if in_list else frame}, tmp_path / "to")
    long = library({"row": [0, 1], "column": [0, 0], "value": [1.0, 2.0]})
    with pytest.raises(mc.DataError, match=r"give \[data\] for data that are in memory"):
        datasets.write_partitions({"y": long}, tmp_path / "to")
    assert datasets.write_partitions({"y": [long]}, tmp_path / "to").shape("y") == (2, 1)


def test_arguments_in_the_order_of_before_are_named(tmp_path):
    with pytest.raises(mc.DataError, match=r"write write_partitions\(data, folder\)"):
        datasets.write_partitions(tmp_path / "to", {"y": TRIPLES})
    with pytest.raises(mc.DataError, match="one triple is a tuple"):
        datasets.write_partitions({"y": [[0.0, 1.0, 2.0]]}, tmp_path / "to")


def test_bounds_of_a_block_hold_in_partitions(tmp_path):
    """Answers lie within the bounds and are those in memory; a value outside names its row."""
    rng = np.random.default_rng(0)
    x = np.clip(rng.standard_normal((40, 2)) @ rng.standard_normal((2, 5)), -1.0, 1.0)
    x[:, 1:][rng.random((40, 4)) < 0.2] = np.nan
    block = mc.Block("x", mc.Gaussian(), bounds=(-0.5, 0.5))
    model = mc.Model([block], [mc.NuclearNorm(0.3)])
    with pytest.raises(mc.DataError, match="its bounds are"):
        mc.fit(model, {"x": x})
    outside = datasets.write_partitions({"x": [x[:20], x[20:]]}, tmp_path / "outside")
    with pytest.raises(mc.DataError, match="its bounds are"):
        mc.fit(model, outside)
    inside = x.clip(-0.5, 0.5)
    in_memory = mc.fit(model, {"x": inside}, tol=1e-8)
    rows, columns = (k.ravel() for k in np.indices(x.shape))
    wanted = in_memory.predict("x", rows, columns)
    stored = datasets.write_partitions({"x": [inside[:20], inside[20:]]}, tmp_path / "inside")
    chunked = dask.array.from_array(inside, chunks=(20, 5))
    for data in (stored, {"x": chunked}):
        fit = mc.fit(model, data, tol=1e-8)
        answer = fit.predict("x", rows, columns)
        assert np.abs(answer).max() <= 0.5
        np.testing.assert_allclose(answer, wanted, atol=1e-3)
        new_rows = 0.5 * np.sign(np.nan_to_num(inside[:3]))
        assert np.abs(fit.predict_rows("x", {"x": new_rows})).max() <= 0.5
