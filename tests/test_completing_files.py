"""Files that are learned from some rows and filled in parts, as if they were in memory."""

import datetime as dt
import json
import resource

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import mcframe as mc
from mcframe.__main__ import main
from mcframe.datasets import complete_file, table_files
from mcframe.datasets.completing_files import filled_parts, rows_to_learn_from
from mcframe.datasets.table_files import ParquetRows

pytestmark = pytest.mark.filterwarnings("ignore:columns that are set aside")

LEVELS = ["low", "mid", "high"]


def mixed(seed, n=90):
    """A table of up to 8 columns of all kinds, a fifth missing."""
    rng = np.random.default_rng(seed)
    d = int(rng.integers(4, 9))
    z = rng.standard_normal((n, 2)) @ rng.standard_normal((2, d))
    z += 0.5 * rng.standard_normal((n, d))
    made = {
        "label": lambda x: np.where(x > 0, "yes", "no").astype(object),
        "category": lambda x: np.array(["red", "blue", "green"])[np.digitize(x, [-1, 0])],
        "whole": lambda x: np.round(np.exp(1.5 + 0.4 * x)),
        "skewed": np.exp,
        "level": lambda x: pd.Categorical(
            np.array(LEVELS)[np.digitize(x, [-1, 1])], LEVELS, ordered=True
        ),
        "atom": lambda x: np.where(x > 0, x, 0.0),
        "number": lambda x: x,
        "day": lambda x: pd.Timestamp("2024-01-01") + pd.to_timedelta(np.round(30 * x), "D"),
    }
    kinds = rng.choice(list(made), d)
    columns = {f"{kind}{j}": pd.Series(made[kind](z[:, j])) for j, kind in enumerate(kinds)}
    return pd.DataFrame(columns).mask(rng.random((n, d)) < 0.2)


def written(frame, path, group=40):
    """The file of a table, in row groups."""
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
    pa.parquet.write_table(table, path, row_group_size=group)
    return path


@pytest.fixture
def parts_of(monkeypatch):
    """A function that sets the rows of a part, of a table of so many columns."""

    def set_rows(n_rows, n_columns):
        monkeypatch.setattr(table_files, "BATCH_ENTRIES", n_rows * n_columns)

    return set_rows


def joined(parts):
    """The tables whose parts these are."""
    return [pa.concat_tables(tables).unify_dictionaries() for tables in zip(*parts, strict=True)]


def assert_tables_agree(found, wanted, rtol=1e-7):
    assert found.schema.equals(wanted.schema)
    for name, one, other in zip(wanted.column_names, found.columns, wanted.columns, strict=True):
        if pa.types.is_floating(other.type):
            np.testing.assert_allclose(one.to_numpy(), other.to_numpy(), rtol, 1e-9, err_msg=name)
        else:
            assert one.to_pylist() == other.to_pylist(), name


@pytest.mark.parametrize("n_rows", [1, 7, 1000])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.some(0.6, seed=1)
def test_parts_of_any_length_are_filled_as_the_table_is(tmp_path, parts_of, seed, n_rows):
    frame = mixed(seed)
    rows = ParquetRows.of(written(frame, tmp_path / "rows.parquet"))
    parts_of(n_rows, frame.shape[1])
    table = rows.take(np.arange(len(frame)))
    assert table.equals(rows.file.read())
    days = {name: "date" for name in frame if name.startswith("day")}
    completed = mc.complete(table, days, nonlinear=False)
    found = joined(filled_parts(completed, rows, 0.8))
    for one, other in zip(found, (completed.table, *completed.interval(0.8)), strict=True):
        assert_tables_agree(one, other)
    assert not any(column.null_count for column in found[0].columns)


@pytest.mark.slow(seconds=2)
def test_trees_fill_parts_as_the_table_but_for_features_at_a_threshold(tmp_path, parts_of):
    """Features of equal rows differ by rounding, where a tree may ask for less."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.uniform(-2.0, 2.0, 600), "z": rng.standard_normal(600)})
    frame["y"] = frame["x"] ** 2 + 0.2 * rng.standard_normal(600)
    frame["y"] = frame["y"].mask(rng.random(600) < 0.2)
    frame["x"] = frame["x"].mask(rng.random(600) < 0.2)
    rows = ParquetRows.of(written(frame, tmp_path / "rows.parquet"))
    completed = mc.complete(rows.take(np.arange(600)))
    assert "trees correct" in str(completed)
    parts_of(7, 3)
    [found] = joined(filled_parts(completed, rows, None))
    moved = np.abs(found.to_pandas() - completed.table.to_pandas()) > 1e-9
    assert moved.to_numpy().mean() < 0.01


@pytest.mark.parametrize("n_rows", [1, 7])
@pytest.mark.some(0.7, n_rows=1)
def test_relations_conditions_weights_and_dates_go_in_parts(tmp_path, parts_of, n_rows):
    rng = np.random.default_rng(1)
    x = np.exp(rng.standard_normal((80, 3)))
    frame = pd.DataFrame({"food": x[:, 0], "rent": x[:, 1], "total": x[:, 0] + x[:, 1]})
    frame["works"] = np.where(x[:, 2] > 1.0, "yes", "no")
    frame["wage"] = pd.Series(x[:, 2]).where(frame["works"] == "yes")
    frame["since"] = [dt.date(2024, 1, 1) + dt.timedelta(int(20 * value)) for value in x[:, 2]]
    frame["weight"] = 1.0 + (np.arange(80) % 3)
    gaps = rng.random(frame.shape) < 0.2
    gaps[:, [3, 6]] = False
    frame = frame.mask(gaps)
    rows = ParquetRows.of(written(frame, tmp_path / "rows.parquet"))
    parts_of(n_rows, frame.shape[1])
    completed = mc.complete(
        rows.file.read(),
        {"wage": mc.only_if("works", "yes"), "since": "date"},
        relations=["total = food + rent"],
        row_weights="weight",
    )
    [found] = joined(filled_parts(completed, rows, None))
    assert_tables_agree(found, completed.table)
    numbers = found.to_pandas()
    np.testing.assert_allclose(numbers["total"], numbers["food"] + numbers["rent"])
    assert numbers["wage"].notna().eq(numbers["works"] == "yes").all()


@pytest.mark.parametrize("n_rows", [1, 7])
@pytest.mark.some(1, n_rows=1)
def test_cells_with_limits_agree_to_what_their_moments_are_iterated_to(tmp_path, parts_of, n_rows):
    """All rows of a part take the sweeps of the one that needs most, to 1e-3 deviations."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((80, 1)) + 0.5 * rng.standard_normal((80, 3))
    frame = pd.DataFrame(np.exp(z), columns=["lead", "zinc", "iron"])
    frame["zinc"] = frame["zinc"].mask(rng.random(80) < 0.3)
    frame["lead"] = [f"{value:.2f}" if value > 0.5 else "<0.5" for value in frame["lead"]]
    rows = ParquetRows.of(written(frame, tmp_path / "rows.parquet"))
    parts_of(n_rows, 3)
    completed = mc.complete(rows.file.read(), {"lead": "number"})
    [found] = joined(filled_parts(completed, rows, None))
    assert found["lead"].type == completed.table["lead"].type
    one, other = found["zinc"].to_numpy(), completed.table["zinc"].to_numpy()
    assert np.all(np.abs(one - other) < 1e-3 * np.std(other))


# Files that are longer than what is learned from


@pytest.fixture
def long_file(tmp_path):
    """The file of a table of 600 rows, and its DataFrame."""
    frame = pd.concat([mixed(2), mixed(2).sample(510, replace=True, random_state=0)])
    frame = frame.reset_index(drop=True)
    frame.insert(0, "id", [f"row {k}" for k in range(600)])
    return written(frame, tmp_path / "rows.parquet", 250), frame


@pytest.mark.filterwarnings("ignore:numbers outside of what their columns were taken for")
@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.some(2, ending=1)
def test_all_rows_of_a_long_file_are_filled_in_order(tmp_path, long_file, parts_of, ending):
    path, frame = long_file
    parts_of(100, frame.shape[1])
    out = tmp_path / f"done.{ending}"
    completed = complete_file(path, out, level=0.9, training_rows=200)
    assert completed.declared.frame.shape[0] == 200
    names = {path.name, *(f"done{end}.{ending}" for end in ("", ".lower", ".upper"))}
    assert {file.name for file in tmp_path.iterdir()} == names
    if ending == "csv":
        found = pd.read_csv(out)
        assert found["id"].tolist() == frame["id"].tolist()
        assert not found.isna().to_numpy().any()
        return
    read = pa.parquet.read_table(out)
    assert read.schema.equals(pa.parquet.read_table(path).schema, check_metadata=True)
    assert pa.parquet.ParquetFile(out).metadata.num_row_groups == 1
    found = read.to_pandas()
    pd.testing.assert_frame_equal(found.where(frame.notna()), frame)
    assert not found.isna().to_numpy().any()
    lower, upper = (
        pd.read_parquet(tmp_path / f"done.{end}.parquet") for end in ("lower", "upper")
    )
    for name in lower.select_dtypes("number"):
        assert (lower[name] <= upper[name]).all()
        missing = frame[name].isna()
        assert (lower[name] == frame[name])[~missing].all()


def test_a_short_file_is_filled_as_complete_does(tmp_path):
    frame = mixed(3)
    path = written(frame, tmp_path / "rows.parquet")
    completed = complete_file(path, tmp_path / "done.parquet", level=0.5, random_state=4)
    wanted = mc.complete(pa.parquet.read_table(path), random_state=4)
    assert completed.table.equals(wanted.table)
    assert pa.parquet.read_table(tmp_path / "done.parquet").equals(wanted.table)
    ends = [pa.parquet.read_table(tmp_path / f"done.{end}.parquet") for end in ("lower", "upper")]
    assert all(map(pa.Table.equals, ends, wanted.interval(0.5)))


def test_rows_are_drawn_once_with_the_seed():
    drawn = rows_to_learn_from(10_000, 100, 0)
    assert np.all(np.diff(drawn) > 0)
    assert drawn.size == 100
    np.testing.assert_array_equal(drawn, rows_to_learn_from(10_000, 100, 0))
    assert not np.array_equal(drawn, rows_to_learn_from(10_000, 100, 1))
    np.testing.assert_array_equal(rows_to_learn_from(5, 100, 0), np.arange(5))


def with_strangers(tmp_path, dictionary=False):
    """A file of 400 rows where one that is not drawn has values that no drawn row has."""
    rng = np.random.default_rng(0)
    x = np.exp(rng.standard_normal(400))
    town = np.where(x > 1.0, "Ulm", "Kiel").astype(object)
    drawn = rows_to_learn_from(400, 100, 0)
    [stranger, *_] = np.setdiff1d(np.arange(250, 400), drawn)
    x[stranger], town[stranger] = -3.0, "Rome"
    frame = pd.DataFrame({"x": x, "town": town, "y": np.log(np.abs(x)) + rng.standard_normal(400)})
    frame.loc[::7, "y"] = None
    frame.loc[::11, "town"] = None
    frame.loc[stranger, ["x", "town"]] = [-3.0, "Rome"]
    if dictionary:
        frame["town"] = frame["town"].astype("category")
    return written(frame, tmp_path / "rows.parquet", 100), frame, int(stranger)


@pytest.mark.parametrize("dictionary", [False, True])
def test_values_that_no_drawn_row_has_stay_and_are_named_once(tmp_path, parts_of, dictionary):
    path, frame, stranger = with_strangers(tmp_path, dictionary)
    parts_of(50, 3)
    with pytest.warns(UserWarning, match="count as missing there, and stay") as warned:
        complete_file(path, tmp_path / "done.parquet", training_rows=100)
    told = [str(warning.message) for warning in warned]
    assert len(told) == 2
    assert "values that the model does not know: 'Rome' in column 'town'" in told[0]
    assert f"-3.0 in row {stranger} of column 'x'" in told[1].replace("-3 in", "-3.0 in")
    found = pd.read_parquet(tmp_path / "done.parquet")
    assert found.loc[stranger, ["x", "town"]].tolist() == [-3.0, "Rome"]
    assert not found.isna().to_numpy().any()
    assert found.dtypes.equals(frame.dtypes)


def test_an_error_names_the_row_of_the_file_and_leaves_nothing(tmp_path):
    path, _, stranger = with_strangers(tmp_path)
    out = tmp_path / "done.parquet"
    with pytest.raises(mc.DataError, match=rf"row {stranger}\b"):
        complete_file(path, out, {"x": ("number", 0.0, None)}, training_rows=100)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.filterwarnings("ignore:.*count as missing there, and stay as they are")
def test_outliers_among_drawn_rows_have_the_numbers_of_the_file(tmp_path):
    path, frame, _ = with_strangers(tmp_path)
    row = int(rows_to_learn_from(400, 100, 0)[60])
    frame.loc[row, "y"] = 1e6
    written(frame, path)
    with pytest.warns(UserWarning, match="dominate means and correlations") as warned:
        complete_file(path, tmp_path / "done.parquet", training_rows=100)
    outlier = f"1000000.0 in row {row} of column 'y'"
    assert any(outlier in str(warning.message) for warning in warned)


# Mistakes, interruptions, full disks


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"row_weights": np.ones(90)}, "the name of a column of the file is needed"),
        ({"training_rows": 0}, "training_rows"),
        ({"level": 2.0}, "level"),
        ({"out": "done.arrow"}, r"the ending \.parquet, \.csv is needed"),
        ({"out": "rows.parquet"}, "is an input, which is never overwritten"),
        ({"out": "old.parquet"}, "exists; give another path, or overwrite=True"),
        ({"path": "rows.csv"}, "read in parts from a file that ends in .parquet"),
        ({"path": "nowhere.parquet"}, "there is no file"),
        ({"path": "text.parquet"}, "cannot be read as parquet"),
        ({"path": "empty.parquet"}, "0 rows"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    frame = written(mixed(0), tmp_path / "rows.parquet")
    written(mixed(0)[:0], tmp_path / "empty.parquet")
    for name in ("rows.csv", "old.parquet", "text.parquet"):
        (tmp_path / name).write_text("a,b\n1,2\n")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    options = {"path": frame, "out": "done.parquet", "training_rows": 50, **options}
    with pytest.raises((mc.DataError, mc.ModelError), match=message):
        complete_file(options.pop("path"), options.pop("out"), **options)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_an_interruption_leaves_the_file_before_as_it_was(tmp_path, parts_of, monkeypatch):
    frame = mixed(0)
    path, out = written(frame, tmp_path / "rows.parquet"), tmp_path / "done.parquet"
    out.write_text("precious")
    parts_of(20, frame.shape[1])
    monkeypatch.setattr(table_files, "BATCH_NUMBERS", 10)  # every part is written at once
    complete_part = mc.Completion.complete_part
    seen = []

    def pressed(completed, part, *options):
        seen.append(part.num_rows)
        if len(seen) == 3:
            assert (tmp_path / "done.parquet.writing").exists()
            raise KeyboardInterrupt
        return complete_part(completed, part, *options)

    monkeypatch.setattr(mc.Completion, "complete_part", pressed)
    with pytest.raises(KeyboardInterrupt):
        complete_file(path, out, training_rows=50, overwrite=True)
    assert out.read_text() == "precious"
    assert {file.name for file in tmp_path.iterdir()} == {path.name, out.name}


def test_a_full_disk_is_one_error_and_leaves_the_file_before(tmp_path, parts_of, monkeypatch):
    """A limit on the size of files, which stops a process in the midst of writing."""
    frame = mixed(0, 400)
    path, out = written(frame, tmp_path / "rows.parquet"), tmp_path / "done.parquet"
    out.write_text("precious")
    parts_of(50, frame.shape[1])
    monkeypatch.setattr(table_files, "BATCH_NUMBERS", 10)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(mc.DataError, match=r"cannot be written \(File too large\)"):
            complete_file(path, out, training_rows=200, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert out.read_text() == "precious"
    assert {file.name for file in tmp_path.iterdir()} == {path.name, out.name}


def test_parts_report_how_many_rows_are_filled(tmp_path, parts_of, monkeypatch):
    frame, told = mixed(0), []
    parts_of(40, frame.shape[1])
    monkeypatch.setattr(
        "mcframe.runtime.progress.Progress.count",
        lambda stage, done, total, unit, **rated: told.append((stage.title, done, total, unit)),
    )
    path = written(frame, tmp_path / "rows.parquet")
    complete_file(path, tmp_path / "done.parquet", training_rows=60)
    fill = [line[1:] for line in told if line[0] == "complete_file / fill"]
    assert fill == [(40, 90, "rows"), (80, 90, "rows"), (90, 90, "rows")]


# The command


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_command_fills_a_long_file_in_parts(place, capsys, parts_of):
    frame = mixed(2, 300)
    frame.insert(0, "id", [f"row {k}" for k in range(300)])
    number = next(name for name in frame.select_dtypes("number"))
    frame.loc[5, number] = -999.0
    written(frame, place / "rows.parquet", 100)
    parts_of(70, frame.shape[1])
    command = ["impute", "rows.parquet", "--out", "done.parquet", "--training-rows", "100"]
    command += ["--intervals", "0.9", "--save", "answer.npz", "--missing", "-999", "--json"]
    assert main(command) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["rows"], facts["training_rows"]) == (300, 100)
    found, lower = pd.read_parquet("done.parquet"), pd.read_parquet("done.lower.parquet")
    assert not found.isna().to_numpy().any()
    assert found["id"].tolist() == lower["id"].tolist() == frame["id"].tolist()
    assert found.loc[5, number] > -900.0
    seen = frame.notna()
    seen.loc[5, number] = False
    pd.testing.assert_frame_equal(found.where(seen), frame.where(seen))
    assert main(["predict", "answer.npz", "rows.parquet", "--out", "again.parquet"]) == 0
    assert_tables_agree(
        pa.parquet.read_table("again.parquet"), pa.parquet.read_table("done.parquet")
    )


def test_the_command_says_what_the_report_is_about(place, capsys):
    written(mixed(0), place / "rows.parquet")
    command = ["impute", "rows.parquet", "--out", "done.csv"]
    assert main([*command, "--training-rows", "60"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("90 rows filled; learned from 60 of them, which the report is about\n")
    assert main([*command, "--overwrite"]) == 0
    assert capsys.readouterr().out.startswith("Completion: ")


@pytest.mark.parametrize(
    ("more", "what"),
    [
        (["--draws", "2"], "--draws"),
        (["--groups", "g"], "--groups"),
        (["--method", "optimum"], "--method optimum"),
        (["--out", "done.arrow"], "an output that is no .parquet or .csv (done.arrow)"),
    ],
)
def test_what_needs_all_rows_is_named(place, capsys, more, what):
    written(mixed(0), place / "rows.parquet")
    command = ["impute", "rows.parquet", "--out", "done.csv", "--training-rows", "60", *more]
    assert main(command) == 2
    assert f"--training-rows was given beside {what}, which needs" in capsys.readouterr().err


def test_all_rows_are_learned_from_without_training_rows(place, capsys):
    written(mixed(0), place / "rows.parquet")
    assert main(["impute", "rows.parquet", "--out", "done.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["training_rows"] == 90


def test_numbers_of_columns_do_not_lengthen_parts(monkeypatch, tmp_path):
    monkeypatch.setattr(table_files, "BATCH_ENTRIES", 10)
    wide = pd.DataFrame(np.zeros((3, 40)), columns=[f"c{k}" for k in range(40)])
    rows = ParquetRows.of(written(wide, tmp_path / "wide.parquet"))
    assert [(first, part.num_rows) for first, part in rows.parts()] == [(0, 1), (1, 1), (2, 1)]
