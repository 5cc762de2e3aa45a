"""Collections of Dask as partitions: the same table as on disk, and what is no table refused."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import mcframe as mc
from mcframe import datasets
from mcframe.partitions.partitioned_data import PartitionedData

from .test_partitions_on_disk import TRIPLES, beside, dense_of

dask = pytest.importorskip("dask", reason="the extra for Dask is not installed")
da = pytest.importorskip("dask.array", reason="the extra for Dask is not installed")
dd = pytest.importorskip("dask.dataframe", reason="the extra for Dask is not installed")

ROWS = (3, 1, 4)


@pytest.fixture(autouse=True)
def serial():
    """Partitions are counted by one thread."""
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    values = rng.standard_normal((sum(ROWS), 4)) * 1e6 + 1e12
    values[rng.random(values.shape) < 0.4] = np.nan
    values[0, 0] = 0.0
    values[3, 1] = 2.0
    return values


def array_of(table, form=np.asarray, rows=ROWS):
    """An array of Dask whose chunks have a form; without one that does not fit into memory."""
    starts = np.cumsum([0, *rows])
    blocks = [
        da.from_delayed(
            dask.delayed(form, pure=True)(table[start : start + height]),
            shape=(height, table.shape[1]),
            dtype=float,
            meta=np.empty((0, 0)),
        )
        for start, height in zip(starts, rows, strict=False)
    ]
    return da.concatenate(blocks, axis=0, allow_unknown_chunksizes=False)


def stored(block):
    """A block of rows as a matrix that stores what is observed, zeros among it."""
    rows, columns = np.nonzero(~np.isnan(block))
    return sp.coo_array((block[rows, columns], (rows, columns)), shape=block.shape)


def coo_of(block):
    """A block of rows as ``sparse`` has it."""
    sparse = pytest.importorskip("sparse")
    found = stored(block)
    return sparse.COO(np.array(found.coords), found.data, shape=block.shape)


@pytest.mark.parametrize("form", [np.asarray, stored, coo_of], ids=["dense", "scipy", "sparse"])
def test_chunks_of_rows_are_partitions(table, form):
    if form is coo_of:
        pytest.importorskip("sparse")
    read = datasets.from_dask({"y": array_of(table, form)})
    assert isinstance(read, PartitionedData)
    assert [read.rows(p) for p in range(3)] == [(0, 3), (3, 4), (4, 8)]
    assert read.shape("y") == table.shape
    np.testing.assert_array_equal(dense_of(read, "y"), table)
    observed = ~np.isnan(table)
    assert [read.n_entries(p) for p in range(3)] == [
        observed[start:stop].sum() for start, stop in map(read.rows, range(3))
    ]
    assert repr(read) == f"DaskPartitions: 'y' 8 x 4 with {observed.sum()} entries; 3 partitions"


def test_other_bits_have_another_fingerprint(table):
    one, again = (datasets.from_dask({"y": array_of(table)}) for _ in range(2))
    other = table.copy()
    other[3, 1] = np.nextafter(2.0, 3.0)
    assert one.fingerprint == again.fingerprint
    assert one.fingerprint != datasets.from_dask({"y": array_of(other)}).fingerprint
    assert one.fingerprint != datasets.from_dask({"y": array_of(table, rows=(4, 4))}).fingerprint


def test_the_parts_are_those_on_disk(table, tmp_path):
    read = datasets.from_dask({"y": array_of(table)})
    disk = datasets.write_partitions({"y": [table]}, tmp_path / "y", n_partitions=1)
    whole = sp.vstack([read.part(p)["y"] for p in range(3)])
    kept = disk.part(0)["y"]
    np.testing.assert_array_equal(whole.data, kept.data)
    np.testing.assert_array_equal(whole.indices, kept.indices)


def test_weights_and_exposures_are_cut_with_their_values(table):
    weights = np.arange(table.size, dtype=float).reshape(table.shape) + 1.0
    by_column = np.array([[1.0, 2.0, 4.0, 8.0]])
    given = mc.Observations(array_of(table), weights=array_of(weights), exposure=by_column)
    read = datasets.from_dask({"y": given})
    parts = [read.part(p)["y"] for p in range(3)]
    np.testing.assert_array_equal(np.vstack([part.weights for part in parts]), weights)
    assert all(part.exposure is by_column for part in parts)


def frame_of(triples, n=2, **additions):
    """A frame of Dask with one triple a row, in the order given."""
    frame = pd.DataFrame(triples, columns=["row", "column", "value"]).assign(**additions)
    return dd.from_pandas(frame, npartitions=n, sort=False)


@pytest.mark.parametrize("indexed", [False, True])
def test_a_frame_of_sorted_triples_is_partitions(indexed):
    frame = frame_of(sorted(TRIPLES), weight=2.5)
    if indexed:
        frame = frame.set_index("row", sorted=False, npartitions=2)
    read = datasets.from_dask({"y": frame}, shapes={"y": (6, 4)})
    whole = np.full((6, 4), np.nan)
    for row, column, value in TRIPLES:
        whole[row, column] = value
    np.testing.assert_array_equal(dense_of(read, "y"), whole)
    assert read.n_partitions == 2
    assert beside(read, "y", "weights").tolist() == [2.5] * len(TRIPLES)


def test_a_frame_beside_an_array_has_its_rows(table):
    at = [(row, row % 3, 1.0 * row) for row in range(7)]
    frame = dd.concat([frame_of(part, 1) for part in (at[:3], at[3:4], at[4:])])
    read = datasets.from_dask({"x": array_of(table), "y": frame})
    assert read.shape("y") == (8, 3)
    assert np.nansum(dense_of(read, "y")) == sum(range(7))


def test_a_frame_in_any_order_goes_to_disk(tmp_path):
    """What the message about items in two partitions says to do."""
    frame = frame_of(TRIPLES)
    parts = (part.compute() for part in frame.partitions)
    written = datasets.write_partitions({"y": parts}, tmp_path / "y")
    assert dense_of(written, "y")[3, 0] == 1e12


def wrong(change):
    """A chunk of rows with something else in it."""

    def form(block):
        return change(block.copy()) if len(block) == ROWS[2] else block

    return form


def with_value(value):
    def change(block):
        block[1, 2] = value
        return block

    return wrong(change)


def twice(block):
    found = stored(block)
    rows, columns = (np.tile(at, 2) for at in found.coords)
    return sp.coo_array((np.tile(found.data, 2), (rows, columns)), shape=block.shape)


FORMS = {
    "infinite": (with_value(-np.inf), "block 'y': value -inf in partition 2, row 5, column 2;"),
    "columns": (wrong(lambda block: block[:, :3]), r"partition 2 is of shape \(4, 3\) and"),
    "rows": (wrong(lambda block: block[:3]), r"partition 2 is of shape \(3, 4\) and its array"),
    "duplicates": (wrong(twice), "entries of partition 2 stand in a cell that has another one"),
    "text": (wrong(lambda block: block.astype(str)), "partition 2 holds"),
}


@pytest.mark.parametrize("fault", FORMS)
def test_partitions_that_are_no_table_are_named(table, fault):
    form, sentence = FORMS[fault]
    with pytest.raises(mc.DataError, match=sentence):
        datasets.from_dask({"y": array_of(table, form)})


def test_chunks_that_are_no_blocks_of_rows_are_refused_before_any_work(table):
    def never(_):
        pytest.fail("a chunk was computed")

    y = array_of(table, never)
    for data, sentence in [
        ({"y": y[y[:, 0] > 0.0]}, r"unknown size; call compute_chunk_sizes\(\)"),
        ({"y": y[:, :, None]}, "an array of 3 dimensions"),
        ({"y": y[:, :0]}, r"has the shape \(8, 0\)"),
        ({"x": y, "y": y[1:]}, "'x' has 8 rows but block 'y' has 7; rows are items"),
        ({"y": mc.Observations(y, weights=y[1:])}, r"weights have the shape \(7, 4\)"),
        ({"y": dask.delayed(never)(0)}, "a Delayed of Dask was given"),
        ({"y": mc.Observations(y, offset=table)}, "offset of shape .* are in memory as a whole"),
        ({"y": mc.Observations(frame_of(TRIPLES), weights=2.0)}, "Observations of a frame"),
        ({"y": table}, "an ndarray was given; a dask.array"),
        ({"x": y, "y": pd.DataFrame(table)}, r"'y': a DataFrame was given.*from_array\(array"),
        ({"x": y, "y": frame_of(TRIPLES)}, "'x' has 3, 'y' has 2"),
        (table, "an ndarray was given; a dict"),
    ]:
        with pytest.raises(mc.DataError, match=sentence):
            datasets.from_dask(data)


def test_frames_that_are_no_partitions_are_refused():
    ordered = sorted(TRIPLES)
    parts = [dask.delayed(frame_of(some, 1).compute()) for some in (ordered[:2], ordered[2:])]
    parts[1] = parts[1].assign(weight=1.0)
    unlike = dd.from_delayed(parts, verify_meta=False, meta=parts[0].compute()[:0])
    for frame, shapes, sentence in [
        (
            frame_of([(0, 0, 1.0), (3, 0, 1.0), (3, 1, 1.0), (5, 0, 1.0)]),
            {},
            r"partition 0 has entries in rows 0 to 3, and its rows are 0 to 2.*set_index\('row'\)",
        ),
        (frame_of(ordered), {"y": (3, 3)}, "entries in row 3 and shapes says 3 rows"),
        (frame_of(ordered), {"y": (4, 2)}, "it has 3 columns and shapes says 2"),
        (frame_of(ordered).rename(columns={"value": "stars"}), {}, "'row', 'column', 'stars'. If"),
        (frame_of([(0, 0, 1.0), (0, 0, 2.0), (1, 0, 1.0), (2, 0, 1.0)]), {}, "1 entries of part"),
        (frame_of([(0, 0, 1.0), (1, 0, np.nan)]), {}, "value nan in partition 1, row 1, column 0"),
        (unlike, {}, "partition 1 has weight with its values and partition 0 has nothing"),
    ]:
        with pytest.raises(mc.DataError, match=sentence):
            datasets.from_dask({"y": frame}, shapes=shapes)


def test_a_task_that_gives_something_else_is_seen(table):
    calls = []

    def drifting(block):
        calls.append(None)
        return block + len(calls)

    read = datasets.from_dask({"y": array_of(table, drifting)})
    with pytest.raises(mc.DataError, match="task of partition 1 gives other entries than when"):
        read.part(1)


def test_without_dask_the_message_says_so(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "dask", None)
    from mcframe.contracts.deferred import Deferred
    from mcframe.partitions import from_dask as reader

    monkeypatch.setattr(reader, "dask", Deferred("dask", "reading Dask's collections"))
    with pytest.raises(mc.BackendError, match="reading Dask's collections needs dask"):
        datasets.from_dask({"y": 1})


def test_parts_travel_with_their_tasks(table):
    cloudpickle = pytest.importorskip("cloudpickle")
    read = datasets.from_dask({"y": array_of(table)})
    again = pickle.loads(cloudpickle.dumps(read))
    assert again.fingerprint == read.fingerprint
    assert (again.part(2)["y"] != read.part(2)["y"]).nnz == 0


def test_what_only_workers_hold_is_refused(table):
    distributed = pytest.importorskip("distributed", reason="the extra for Dask is not installed")
    cluster = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with distributed.Client(**cluster, dashboard_address=":0") as client:
        held = client.persist(array_of(table))
        with pytest.raises(mc.DataError, match=r"made by persist\(\).*before persist"):
            datasets.from_dask({"y": held})
        client.cancel(held)


def test_each_task_runs_once_for_all_facts(table):
    """What a fit and ``explain`` ask of the data is known from then on."""
    ran = []

    def counted(block):
        ran.append(len(block))
        return block

    data = datasets.from_dask({"x": array_of(table, counted)})
    assert sorted(ran) == sorted(ROWS)
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    mc.explain(model, data)
    entries = [data.n_entries(p) for p in range(data.n_partitions)]
    assert sum(entries) == np.count_nonzero(~np.isnan(table))
    assert (data.fingerprint, data.shape("x"), data.rows(2)) == (data.fingerprint, (8, 4), (4, 8))
    assert len(ran) == len(ROWS)


def test_rows_that_are_labels_are_refused_before_any_of_them_is_counted():
    frame = pd.DataFrame({"row": [3, 10**12], "column": [0, 1], "value": [1.0, 2.0]})
    for n_partitions in (1, 2):
        with pytest.raises(mc.DataError, match=r"row 1000000000000.*labels.*pandas.factorize"):
            datasets.from_dask({"x": dd.from_pandas(frame, npartitions=n_partitions)})
    said = {"shapes": {"x": (10**12 + 1, 2)}}
    assert datasets.from_dask({"x": dd.from_pandas(frame, npartitions=2)}, **said).n_items > 10**12
    named = frame.assign(row=["ann", "bob"])
    with pytest.raises(mc.DataError, match=r"Labels are numbered first"):
        datasets.from_dask({"x": dd.from_pandas(named, npartitions=1)})


MODEL = mc.Model([mc.Block("y", mc.Gaussian(), bias=True)], [mc.NuclearNorm(1.0)])
TWO = mc.Model([*MODEL.blocks, mc.Block("x", mc.Huber())], MODEL.terms)


@pytest.fixture
def near(table):
    """Numbers around 0 with holes; its last rows have none."""
    near = np.vstack([(table - 1e12) / 1e6, np.full((2, 4), np.nan)])
    near[near < -5.0] = 0.0
    return near


def in_frames(values, npartitions=3):
    frame = pd.DataFrame(values, columns=[f"c{k}" for k in range(values.shape[1])])
    return dd.from_pandas(frame, npartitions=npartitions)


def fitted(data, model=MODEL):
    """The fit of a table with rows without an entry, and its objective."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mc.UnobservedWarning)
        return mc.fit(model, data, backend="alternating", tol=1e-8)


def csr_of(block):
    return sp.csr_array(stored(block))


@pytest.mark.parametrize(
    "given",
    [
        pytest.param(lambda x: da.from_array(x, chunks=(4, 3)), id="chunked columns"),
        pytest.param(lambda x: array_of(x, csr_of, (3, 1, 6)), id="sparse chunks"),
        pytest.param(lambda x: in_frames(x), id="frame"),
        pytest.param(lambda x: in_frames(np.vstack([x, x]), 5).loc[10:], id="empty partitions"),
        pytest.param(lambda x: in_frames(x).astype("Float64"), id="nullable"),
        pytest.param(
            lambda x: mc.Observations(in_frames(x, 2), weights=da.ones(x.shape, chunks=(3, 2))),
            id="weights in other chunks",
        ),
    ],
)
def test_collections_are_fitted_as_tables_in_partitions(near, given):
    fit, whole = fitted({"y": given(near)}), fitted({"y": near})
    assert type(fit.problem).__name__ == "PartitionedProblem"
    assert fit.objective == pytest.approx(whole.objective, rel=1e-8)
    assert mc.explain(MODEL, {"y": given(near)}).refusal is None


def test_blocks_of_both_kinds_are_cut_alike(near):
    data = {"x": da.from_array(near + 1.0, chunks=(3, 4)), "y": in_frames(near, 4)}
    fits = [fitted(dict(given), TWO) for given in (data.items(), reversed(data.items()))]
    for fit, heights in zip(fits, ([3, 3, 3, 1], [3, 3, 2, 2]), strict=True):
        assert [stop - start for start, stop in fit.problem.partitions.rows] == heights
        whole = fitted({"x": near + 1.0, "y": near}, TWO)
        assert fit.objective == pytest.approx(whole.objective, rel=1e-8)


def test_columns_of_frames_keep_their_names(near):
    fit, whole = fitted({"y": in_frames(near)}), fitted({"y": in_frames(near).compute()})
    pd.testing.assert_series_equal(fit.bias("y"), whole.bias("y"), rtol=1e-4)
    assert fit.predict_pairs("y", [(3, "c2")]) == pytest.approx(
        whole.predict_pairs("y", [(3, "c2")]), rel=1e-4
    )
    assert [row[:2] for row in fit.top("y", 9, n=1)] in ([(9, f"c{k}")] for k in range(4))


def test_offsets_of_cells_without_an_entry_are_known(near):
    offset = np.arange(near.size).reshape(near.shape) / 10.0
    given = mc.Observations(da.from_array(near, chunks=3), offset=da.from_array(offset, chunks=4))
    fit, whole = fitted({"y": given}), fitted({"y": mc.Observations(near, offset=offset)})
    np.testing.assert_allclose(fit.predict("y"), whole.predict("y"), atol=1e-3)
    np.testing.assert_allclose(fit.impute("y"), whole.impute("y"), atol=1e-3)


@pytest.mark.parametrize(
    "columns",
    [
        {"row": [0, 0, 1], "column": [0, 1, 0], "value": [1.0, 2.0, 3.0]},
        {"user": ["ann", "ann", "bob"], "film": ["Up", "Jaws", "Up"], "stars": [1.0, 2.0, 3.0]},
        {"user_id": [0.0, 0.0, 1.0], "item_id": [0.0, 1.0, 0.0], "a": [1.0, 2.0, 3.0]},
        {"a": [0, 0, 1], "b": [0, 1, 0], "c": [1.0, 2.0, 3.0], "d": [1.0, 2.0, 3.0]},
    ],
)
def test_frames_of_entries_ask_how_they_are_meant(columns):
    frame = dd.from_pandas(pd.DataFrame(columns), npartitions=2)
    remedies = r"from_dask\(.*write_partitions\(.*to_dask_array\(lengths=True\)"
    for read in (mc.fit, mc.explain):
        with pytest.raises(mc.DataError, match=remedies):
            read(MODEL, {"y": frame})
    if "value" in columns:
        assert datasets.from_dask({"y": frame}).shape("y") == (2, 2)
        frame = frame.rename(columns={"row": "r", "column": "c"}).astype(float)
        assert fitted({"y": frame.to_dask_array(lengths=True)}).latent.shape == (3, 3)


def test_what_cannot_be_fitted_is_refused_before_a_chunk_is_computed(table):
    def never(_):
        pytest.fail("a chunk was computed")

    y = array_of(table, never)
    ball = mc.Model(MODEL.blocks, [mc.NuclearBall(1.0)])
    for model, data, kind, sentence in [
        (MODEL, {"y": y, "x": y}, mc.DataError, "hold 'x', which no block is named"),
        (TWO, {"y": y}, mc.DataError, "block 'x' has no data"),
        (TWO, {"y": y, "x": table}, mc.DataError, "block 'x': an ndarray was given; a dask.array"),
        (TWO, {"y": table, "x": y}, mc.DataError, "block 'y': an ndarray was given; a dask.array"),
        (ball, {"y": y}, mc.BackendError, "one NuclearNorm is needed"),
    ]:
        with pytest.raises(kind, match=sentence):
            mc.fit(model, data)


@pytest.mark.parametrize("form", ["array", "frame", "partitions"])
def test_what_needs_all_rows_says_so(near, form):
    """Verbs, tables, estimators and new rows, of collections and of partitions of them."""
    estimators = pytest.importorskip("mcframe.estimators")
    y = da.from_array(near, chunks=3) if form != "frame" else in_frames(near)
    partitions = datasets.from_dask({"y": y})
    data, alone = (partitions, partitions) if form == "partitions" else ({"y": y}, y)
    fit = fitted({"y": near})
    for ask in (
        lambda: mc.path(MODEL, data),
        lambda: mc.cross_validate(MODEL, data, criterion="mse"),
        lambda: mc.weight_max(MODEL, data),
        lambda: mc.verify(MODEL, data),
        lambda: mc.to_cvxpy(MODEL, data),
        lambda: mc.complete(alone),
        lambda: mc.declare(alone),
        lambda: estimators.MatrixCompletionImputer().fit(alone),
        lambda: fit.predict_rows("y", data),
        lambda: mc.Problem.bind(MODEL, {"y": alone}),
    ):
        with pytest.raises(mc.DataError, match=r"mc\.fit and mc\.explain take.*in this process"):
            ask()


def test_sources_of_partitions_are_no_collections(table, tmp_path):
    with pytest.raises(mc.DataError, match="from_dask reads it, and"):
        datasets.write_partitions({"y": da.from_array(table)}, tmp_path / "y")
