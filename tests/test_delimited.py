"""Tables in CSV: one reader for commands and for ``read_csv``, without pyarrow, too."""

import csv
import datetime as dt
import subprocess
import sys
from pathlib import Path
from unittest import mock

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mcframe as mc
from mcframe.commands.files import read_table_file
from mcframe.datasets import arrow_cells, read_csv
from mcframe.datasets.arrow_cells import finite_numbers
from mcframe.datasets.delimited import (
    MAKERS,
    MISSING,
    Dialect,
    column_of_text,
    frame_of_columns,
    list_of_cells,
    read_cells,
    read_plainly,
    read_text,
)
from mcframe.datasets.readers import number_in_cell
from mcframe.datasets.table_files import write_tables

TABLE = '''code,size,kind,count,day,time,low
a1,1.5,"x, y",3,2024-01-31,2024-01-31T10:30,1e-3
a2,,x,4,2024-02-01,2024-02-01 11:00,-.5
a3,2.25, NA ,,2024-02-02,,2
a4,-3,"say ""x""",-7,,2024-02-03 12:00:30.5,
007,4.0,x,12,2024-02-05,2024-02-05 00:00,7
'''
FLOATS = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False))


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def rows_of(path):
    with Path(path).open(newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def without(libraries, *commands):
    """Commands up to the first that fails, in a process that cannot import these libraries."""
    code = (
        "import sys\n"
        "class Blocked:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name.split('.')[0] in {libraries!r}:\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
        "from mcframe.__main__ import main\n"
        f"sys.exit(next(filter(None, map(main, {commands!r})), 0))\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )


def test_cells_become_values():
    by_name = {
        "whole": (["3", "-12", None, " 4 "], "whole", [3, -12, None, 4]),
        "number": (["1.5", "-.5", "1e3", "NA"], "number", [1.5, -0.5, 1000.0, None]),
        "codes": (["007", "12"], "text", ["007", "12"]),
        "long": (["12345678901234567", "1.5"], "text", ["12345678901234567", "1.5"]),
        "day": (["2024-02-29", ""], "date", [dt.date(2024, 2, 29), None]),
        "no day": (["2024-02-30"], "text", ["2024-02-30"]),
        "time": (["2024-02-29 10:30"], "time", [dt.datetime(2024, 2, 29, 10, 30)]),
        "mixed": (["1", "x"], "text", ["1", "x"]),
        "nothing": (["", "nan", None], "text", [None, None, None]),
        "infinite": (["1", "-inf"], "number", [1.0, -np.inf]),
    }
    for name, (cells, kind, values) in by_name.items():
        column = column_of_text(name, cells)
        assert (column.kind, column.values) == (kind, values), name
    assert column_of_text("x", ["1,5", "2"], decimal=",").values == [1.5, 2.0]
    assert column_of_text("x", ["1.234,5", "1.000"], decimal=",").values == [1234.5, 1000.0]
    assert column_of_text("x", ["31.1.2024"], dates="%d.%m.%Y").values == [dt.date(2024, 1, 31)]
    assert column_of_text("x", ["3"], like=nw.Float64()).kind == "number"
    assert column_of_text("x", ["3"], like=nw.String()).values == ["3"]


@pytest.mark.parametrize("library", MAKERS)
def test_frames_of_every_library_have_the_same_cells(place, library, monkeypatch):
    Path("table.csv").write_text(TABLE)
    written = {}
    for name in ("pyarrow", library):
        monkeypatch.setattr("mcframe.datasets.delimited.LIBRARIES", (name,))
        table = read_table_file("table.csv")
        assert nw.from_native(table).implementation.value == name
        write_tables({Path(f"{name}.csv"): table})
        written[name] = rows_of(f"{name}.csv")
    assert written[library] == written["pyarrow"]
    assert [row[0] for row in written[library]] == ["code", "a1", "a2", "a3", "a4", "007"]


def completed_and_predicted(blocked, *more):
    """What two commands write here from a CSV without some libraries; what the last one says.

    ``more`` is a command that cannot be done without them.
    """
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    frame = pd.DataFrame(
        {
            "id": [f"r{k}" for k in range(40)],
            "x": x.round(3),
            "y": (2.0 * x + 0.1 * rng.standard_normal(40)).round(3),
            "kind": np.where(x > 0, "high", "low"),
            "visits": rng.poisson(30, 40),
        }
    )
    frame = frame.mask(rng.random(frame.shape) < [0.0, 0.2, 0.2, 0.2, 0.2])
    frame.to_csv("table.csv", index=False)
    options = ["--types", "visits=count", "--intervals", "0.9", "--out", "done.csv"]
    commands = (
        ["impute", "table.csv", *options, "--save", "done.npz"],
        ["predict", "done.npz", "table.csv", "--out", "done.new.csv"],
        *more,
    )
    ran = without(blocked, *commands)
    assert ran.returncode == (2 if more else 0), ran.stderr
    written = [rows_of(f"done{end}.csv") for end in ("", ".lower", ".upper", ".new")]
    return written, ran.stderr


@pytest.fixture(scope="module")
def with_all_libraries(tmp_path_factory):
    with pytest.MonkeyPatch.context() as context:
        context.chdir(tmp_path_factory.mktemp("with"))
        return completed_and_predicted(())[0]


@pytest.mark.parametrize("libraries", [("pyarrow",), ("pyarrow", "polars")])
@pytest.mark.some(3.5, libraries=[1])
def test_csv_needs_no_pyarrow(place, libraries, with_all_libraries):
    parquet = ["impute", "table.csv", "--out", "done.parquet"]
    written, said = completed_and_predicted(libraries, parquet)
    assert written == with_all_libraries
    assert 'pip install "mcframe[cli]"' in said


def test_without_any_library_of_tables_it_says_what_to_install(place):
    Path("table.csv").write_text(TABLE)
    libraries = ("pyarrow", "polars", "pandas")
    ran = without(libraries, ["impute", "table.csv", "--out", "done.csv"])
    assert ran.returncode == 2
    assert ran.stderr.startswith("mcframe: a table in a file needs a library of tables")
    assert 'pip install "mcframe[cli]"' in ran.stderr


MISTAKES = [
    ("", {}, "the first line is empty; it must name the columns"),
    ("a,b\n1,2\n3\n", {}, "line 3 has 1 cell, and the first line has 2"),
    ('a,b\n1,2\n3,"4\n5,6\n', {}, "line 3 and those after it have a quote that is not closed"),
    ("a,b\n1,2\n", {"encoding": "utf-9"}, "unknown encoding: utf-9"),
    ("a;b\n1;2\n", {}, "has a single column, called 'a;b'"),
]


@pytest.mark.parametrize(("text", "options", "message"), MISTAKES)
def test_both_entries_refuse_what_is_no_table_alike(place, text, options, message):
    Path("table.csv").write_text(text)
    with pytest.raises(mc.DataError) as of_commands:
        read_table_file("table.csv", **options)
    with pytest.raises(mc.DataError) as of_python:
        read_csv("table.csv", {"x": "*"}, **options)
    for caught in (of_commands, of_python):
        assert message in str(caught.value)


def test_each_entry_names_its_own_options(place):
    Path("table.csv").write_bytes("größe\n1\n".encode("latin-1"))
    with pytest.raises(mc.DataError, match="such as --encoding latin-1"):
        read_table_file("table.csv")
    with pytest.raises(mc.DataError, match="such as encoding='latin-1'"):
        read_csv("table.csv", {"x": "*"})
    Path("table.csv").write_bytes("x\n1\n".encode("utf-16"))
    with pytest.raises(mc.DataError, match="such as --encoding utf-16"):
        read_table_file("table.csv")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=6)


@given(
    st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6),
    st.sampled_from([",", ";", "\t", "|"]),
    st.sampled_from(["utf-8", "utf-16"]),
)
def test_what_is_written_is_read(tmp_path_factory, rows, delimiter, encoding):
    file = tmp_path_factory.mktemp("cells") / "table.csv"
    with file.open("w", newline="", encoding=encoding) as text:
        csv.writer(text, delimiter=delimiter).writerows([("one", "two"), *rows])
    table = read_cells(file, Dialect(delimiter, encoding))
    assert table.names == ["one", "two"]
    assert list(zip(*map(list_of_cells, table.columns), strict=True)) == rows
    assert len(table.lines) == len(rows)


@given(st.lists(FLOATS, min_size=1))
def test_numbers_are_read_to_the_last_bit(numbers):
    cells = [None if number is None else repr(number) for number in numbers]
    column = column_of_text("x", cells)
    if any(number is not None for number in numbers):
        assert column.kind == "number"
        assert column.values == numbers
        frame = nw.from_native(frame_of_columns([column]))
        assert frame.get_column("x").to_list() == numbers


def test_a_name_may_hold_what_stands_between_cells_elsewhere(place):
    Path("table.csv").write_text('"weight, kg"\n71\n82\n')
    assert nw.from_native(read_table_file("table.csv")).columns == ["weight, kg"]


# Arrow, where it is installed, and the plain reader

PARTS = [
    "1",
    "-2.50",
    "007",
    "1e5",
    "1E-400",
    ".5",
    "3.",
    "+4",
    "inf",
    "-Infinity",
    "nan",
    "NA",
    "",
]
PARTS += ["12345678901234567890", "123456789012345678", "1e400", "2024-02-30", "2024-02-29", "1_0"]
PARTS += [
    "2024-02-29 12:30",
    "yes",
    " padded ",
    "\u2003wide\u2003",
    "\x1c5\x1f",
    "größe",
    "ınf",
    "٣",
]
PARTS += [
    '"quoted"',
    'a"b',
    '"a,b"',
    "\ufeff",
    "\0",
    "1,5",
    "\t",
    ";",
    "0x10",
    "-0",
    "Nan",
    "null",
]
ENDS = ["\n"] * 8 + ["\r\n", "\r", "\n\n", "\n\r\n", "\n \n", ""]


@st.composite
def texts(draw):
    """A table of text, well formed or not."""
    n, d = draw(st.integers(0, 5)), draw(st.integers(1, 3))
    cells = st.one_of(st.sampled_from(PARTS), st.sampled_from(PARTS[:8]), CELLS)
    mark = draw(st.sampled_from([",", ";", "\t", "|", " ", "§"]))
    end = draw(st.sampled_from(ENDS))
    lines = [mark.join(["name", "b", "c"][:d])]
    lines += [mark.join(draw(st.lists(cells, min_size=d, max_size=d))) for _ in range(n)]
    ends = [end if draw(st.integers(0, 3)) else draw(st.sampled_from(ENDS)) for _ in lines]
    return "".join(line + end for line, end in zip(lines, ends, strict=True)), mark


def answer_of(call):
    """What a call returns, or the message of its ``DataError``."""
    try:
        return call()
    except mc.DataError as error:
        return str(error)


def plain_table(table):
    if isinstance(table, str):
        return table
    return table.names, [list_of_cells(cells) for cells in table.columns], list(table.lines)


def as_list(values):
    """Values of a column of text, NaN as a word, with their types."""
    values = values if isinstance(values, list) else values.to_pylist()
    return [(type(value).__name__, repr(value)) for value in values]


@settings(max_examples=400, deadline=None)
@given(texts(), st.sampled_from([None, nw.Float64(), nw.Int64(), nw.String()]))
def test_arrow_reads_what_the_plain_reader_does(tmp_path_factory, drawn, like):
    """Of any text: cells, kinds and values of columns, numbers of blocks, and messages."""
    text, mark = drawn
    file = tmp_path_factory.mktemp("cells") / "table.csv"
    file.write_bytes(text.encode())
    dialect = Dialect(mark)
    table = answer_of(lambda: read_cells(file, dialect))
    plain = answer_of(lambda: read_plainly(file, read_text(file, dialect), dialect))
    assert plain_table(table) == plain_table(plain)
    if isinstance(plain, str):
        return
    for cells, same in zip(table.columns, plain.columns, strict=True):
        with mock.patch.object(arrow_cells, "FIRST_CELLS", 2):
            one, other = (column_of_text("x", column, like) for column in (cells, same))
        assert one.kind == other.kind
        assert as_list(one.values) == as_list(other.values)
        if not isinstance(cells, list):
            numbers = finite_numbers(cells, MISSING)
            read = answer_of(
                lambda cells=same: [number_in_cell("", "x", t, MISSING) for t in cells]
            )
            assert numbers is None or numbers.tolist() == pytest.approx(read, abs=0.0, nan_ok=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(FLOATS, min_size=2, max_size=2), min_size=1, max_size=20))
def test_both_readers_read_the_same_numbers_to_the_last_bit(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("cells") / "table.csv"
    cells = [["" if number is None else repr(number) for number in row] for row in rows]
    file.write_text("\n".join(map(",".join, [["one", "two"], *cells])))
    table = read_cells(file, Dialect())
    assert not isinstance(table.columns[0], list)
    for column, numbers in zip(table.columns, zip(*rows, strict=True), strict=True):
        read = column_of_text("x", column)
        assert as_list(read.values) == as_list(list(numbers)) or not any(numbers)
        assert as_list(read.values) == as_list(column_of_text("x", column.to_pylist()).values)
    (file.parent / "quoted.csv").write_text(file.read_text().replace("one", '"one"'))
    assert isinstance(read_cells(file.parent / "quoted.csv", Dialect()).columns[0], list)
    paths = (file, file.parent / "quoted.csv")
    arrays = [read_csv(path, {"x": ["one", "two"]})["x"] for path in paths]
    np.testing.assert_array_equal(*arrays)
    np.testing.assert_array_equal(arrays[0], np.array(rows, dtype=float))


def test_a_column_whose_first_cells_are_missing_is_one_of_numbers(place):
    Path("table.csv").write_text("x,y\n" + ",a\n" * 300 + "1.5,b\n")
    table = nw.from_native(read_table_file("table.csv"))
    assert table["x"].to_list() == [None] * 300 + [1.5]
    assert table["x"].dtype == nw.Float64


def test_marks_of_missing_entries_are_texts(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,-99\n2,3\n")
    with pytest.raises(mc.DataError, match=r"missing holds -99; .* such as '-99'"):
        mc.datasets.read_csv(path, {"x": ["a", "b"]}, missing=("NA", -99))
    read = mc.datasets.read_csv(path, {"x": ["a", "b"]}, missing=("NA", "-99"))
    assert np.isnan(np.asarray(read["x"], dtype=float)[0, 1])
