"""The commands at a terminal, as users give them: files in, files out, mistakes in one line."""

import contextlib
import csv
import datetime as dt
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import mcframe as mc
from mcframe.__main__ import main
from mcframe.commands import files
from mcframe.commands.parsing import in_one_line
from mcframe.contracts.deferred import Deferred

from .test_docs import ROOT

N_ROWS = 48
MODEL = """
terms = [{ is = "NuclearNorm", weight = 0.5 }]

[[blocks]]
name = "sizes"
columns = ["height", "weight"]
likelihood = "Gaussian"
standardize = true

[[blocks]]
name = "smokers"
columns = ["smokes"]
likelihood = { is = "Bernoulli" }
bias = true

[[blocks]]
name = "stages"
columns = ["stage"]
likelihood = { is = "Ordinal", levels = 3 }
"""
STAGES = 'stage=["low","mid","high"]'


def rows():
    rng = np.random.default_rng(0)
    size = rng.standard_normal(N_ROWS)
    columns = {
        "code": [f"0{k:03d}" for k in range(N_ROWS)],
        "height": [f"{value:.3f}" for value in 170.0 + 10.0 * size],
        "weight": [f"{round(value)}" for value in 70.0 + 9.0 * size + rng.standard_normal(N_ROWS)],
        "smokes": np.where(size + 0.5 * rng.standard_normal(N_ROWS) > 0, "yes", "no").tolist(),
        "stage": np.array(["low", "mid", "high"])[np.digitize(size, [-0.5, 0.5])].tolist(),
    }
    table = [list(row) for row in zip(*columns.values(), strict=True)]
    for row, column in zip(*np.nonzero(rng.random((N_ROWS, 4)) < 0.2), strict=True):
        table[row][column + 1] = ""
    return [list(columns), *table]


def write(path, table, delimiter=","):
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(table)


def read(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with ``table.csv`` and ``model.toml``."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MCFRAME_DATA", raising=False)
    write("table.csv", rows())
    Path("model.toml").write_text(MODEL)
    return tmp_path


@pytest.fixture
def fitted(place, capsys):
    """The saved fit of that model."""
    command = ["fit", "table.csv", "--model", "model.toml", "--types", STAGES, "--out", "fit.npz"]
    assert main(command) == 0
    assert "Fit: certified" in capsys.readouterr().out
    return "fit.npz"


# What the commands answer


def test_impute_fills_a_table_and_changes_nothing_else(place, capsys):
    assert main(["impute", "table.csv", "--out", "done.csv", "--types", STAGES]) == 0
    printed = capsys.readouterr()
    assert "posterior converged" in printed.out
    assert "ordinal" in printed.out
    assert "'code' (text, and all 48 values differ" in printed.err
    given, done = read("table.csv"), read("done.csv")
    assert done[0] == given[0]
    assert not any(cell == "" for row in done for cell in row)
    for row, filled in zip(given[1:], done[1:], strict=True):
        assert filled[0] == row[0]  # 0001 is no number
        assert [b if a else "" for a, b in zip(row[3:], filled[3:], strict=True)] == row[3:]
        assert not row[1] or float(filled[1]) == float(row[1])
        assert filled[2] == str(int(filled[2]))  # whole numbers stay whole
    assert sorted(place.iterdir()) == [
        place / "done.csv",
        place / "model.toml",
        place / "table.csv",
    ]


@pytest.mark.parametrize(("given", "out"), [("parquet", "arrow"), ("feather", "csv")])
def test_tables_come_and_go_in_any_format(place, given, out):
    table = pa.table(
        {
            "number": pa.array([1.5, None, 2.5, 4.0] * 6),
            "size": pa.array(["S", "L", None, "L"] * 6).dictionary_encode(),
            "day": pa.array([f"2024-01-0{k}" for k in range(1, 5)] * 6).cast(pa.date32()),
        }
    )
    if given == "parquet":
        pa.parquet.write_table(table, "in.parquet")
    else:
        pa.feather.write_feather(table, "in.feather")
    assert main(["impute", f"in.{given}", "--out", f"out.{out}", "--types", "day=skip"]) == 0
    if out == "arrow":
        done = pa.feather.read_table("out.arrow")
        assert done.schema.types == table.schema.types
        assert done.column("size").null_count == done.column("number").null_count == 0
    else:
        done = read("out.csv")
        assert [row[2] for row in done[1:5]] == [f"2024-01-0{k}" for k in range(1, 5)]
        assert done[1][0] == "1.5"


def test_csv_is_read_as_its_cells_are_written(place):
    table = [["a;b", "date", "day", "time", "empty"]]
    table += [
        [f"{k}.5", f"2024-13-{10 + k}", f"2024-01-{10 + k}", f"2024-01-{10 + k} 12:00", ""]
        for k in range(9)
    ]
    write("other.csv", table, delimiter=";")
    out = ["--out", "done.parquet", "--delimiter", ";", "--missing", "3.5"]
    types = ["--types", "day=date", "--types", "time=skip", "--types", "date=skip"]
    assert main(["impute", "other.csv", *out, *types, "--types", "empty=skip"]) == 0
    done = pa.parquet.read_table("done.parquet")
    assert done.column_names == table[0]
    expected = [pa.float64(), pa.string(), pa.date32(), pa.timestamp("us"), pa.string()]
    assert done.schema.types == expected
    assert done["a;b"][3].as_py() != 3.5


def test_csv_with_tabs_and_decimal_commas(place):
    table = [["length", "points", "note"]]
    table += [[f"{k},5" if k else "", f"1.{k}00" if k % 2 else "900", f"a,{k}"] for k in range(8)]
    write("other.csv", table, delimiter="\t")
    out = ["--out", "done.parquet", "--types", "points=skip", "--types", "note=skip"]
    assert main(["impute", "other.csv", "--delimiter", r"\t", "--decimal", ",", *out]) == 0
    done = pa.parquet.read_table("done.parquet").to_pydict()
    assert done["length"][1:] == [k + 0.5 for k in range(1, 8)]
    assert done["points"] == [1000 + 100 * k if k % 2 else 900 for k in range(8)]
    assert done["note"] == [f"a,{k}" for k in range(8)]


def test_whole_numbers_too_long_for_floats_stay_text(place):
    ids = [f"8949020000123456780{k}" for k in range(9)]
    table = [["id", "price", "note", "x"]]
    table += [[each, each[:18], "  " if k else "a", k**1.5] for k, each in enumerate(ids)]
    table[1][1] = "1.5"
    write("other.csv", table)
    skipped = [f"--types={name}=skip" for name in ("id", "price", "note")]
    assert main(["impute", "other.csv", "--out", "done.parquet", *skipped]) == 0
    done = pa.parquet.read_table("done.parquet").to_pydict()
    assert done["id"] == ids
    assert done["price"] == ["1.5", *(each[:18] for each in ids[1:])]
    assert done["note"] == ["a"] + 8 * [None]


def test_impute_takes_weights_of_rows_and_corrects_columns(place, capsys):
    table = [[*row, weight] for row, weight in zip(rows()[1:], [1.0, 4.0] * 24, strict=True)]
    write("weighted.csv", [[*rows()[0], "w"], *table])
    command = ["impute", "weighted.csv", "--out", "done.csv", "--types", STAGES]
    assert main([*command, "--row-weights", "w", "--nonlinear"]) == 0
    assert "tell as much of a mean as 35.3 rows of equal weight" in capsys.readouterr().out
    assert main([*command, "--row-weights", "height", "--overwrite"]) == 2
    assert "column 'height' of row_weights: row" in capsys.readouterr().err
    assert main([*command, "--model", "model.toml", "--nonlinear", "--overwrite"]) == 2
    assert "--nonlinear is without --model" in capsys.readouterr().err


def test_a_first_line_of_numbers_is_named(place, capsys):
    write("other.csv", [[f"{k}.5", k] for k in range(1, 9)])
    assert main(["impute", "other.csv", "--out", "done.csv"]) == 0
    assert "the first line, 1.5,1 ..., holds numbers alone" in capsys.readouterr().err


def test_text_for_missing_entries_is_named(place, capsys):
    write("other.csv", [["x", "kind"], *([k**1.5, ("a", "b", "NULL")[k % 3]] for k in range(24))])
    assert main(["impute", "other.csv", "--out", "done.csv"]) == 0
    assert "is taken for a value: 'NULL' in column 'kind'" in capsys.readouterr().err
    assert main(["impute", "other.csv", "--out", "again.csv", "--missing", "NULL"]) == 0
    assert "is taken for a value" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("form", "kind"), [("%d.%m.%Y", "date32[day]"), ("%d/%m/%y %H:%M", "timestamp[us]")]
)
def test_csv_with_dates_of_another_form(form, kind, place):
    days = [dt.datetime(2020, 1, 31, 8) + dt.timedelta(days=9 * k) for k in range(8)]
    texts = [day.strftime(form) if k != 3 else "" for k, day in enumerate(days)]
    write("other.csv", [["x", "day"], *([k**1.01, text] for k, text in enumerate(texts))])
    out = ["--out", "done.parquet", "--types", "day=date"]
    assert main(["impute", "other.csv", "--dates", form, *out]) == 0
    done = pa.parquet.read_table("done.parquet")["day"]
    assert str(done.type) == kind
    assert [day.strftime(form) for day in done.to_pylist() if day][:3] == texts[:3]
    assert main(["impute", "other.csv", *out, "--overwrite"]) == 2
    assert main(["impute", "other.csv", *out, "--delimiter", ";", "--decimal", ";"]) == 2


def test_rows_have_their_names_in_all_outputs(place):
    """Of a column that is set aside because its values all differ, or of one that is named."""
    command = ["impute", "table.csv", "--types", STAGES, "--save", "answer.npz"]
    assert main([*command, "--out", "done.csv", "--intervals", "0.9", "--draws", "1"]) == 0
    codes = [row[0] for row in read("table.csv")]
    for name in ("done", "done.lower", "done.upper", "done.draw1"):
        assert [row[0] for row in read(f"{name}.csv")] == codes
    new = [*read("table.csv")[:1], ["new 1", "", "70", "", ""], ["new 2", "180", "", "", ""]]
    write("new.csv", new)
    for column in ("weight", "smokes", "stage"):
        for rows, named in (([], codes), (["new.csv"], ["code", "new 1", "new 2"])):
            asked = ["predict", "answer.npz", *rows, "--column", column, "--out", "column.csv"]
            assert main([*asked, "--overwrite"]) == 0
            assert [row[0] for row in read("column.csv")] == named
    twice = read("table.csv")
    twice[2][0] = twice[1][0]
    write("twice.csv", twice)
    command = ["impute", "twice.csv", "--intervals", "0.9", "--id", "code", "--id", "stage"]
    assert main([*command, "--out", "named.csv"]) == 0
    assert read("named.lower.csv")[0][:2] == ["code", "stage"]
    given = [row[4] for row in twice]
    assert [row[1] for row in read("named.lower.csv")] == given  # set aside, and not filled


def test_what_names_rows_has_no_part_in_a_model(place):
    header, *lines = rows()
    table = [[*header, "number"], *([*line, f"{3 * k % 7}"] for k, line in enumerate(lines))]
    write("numbered.csv", table)
    for command in (["fit", "--out", "fit.npz"], ["verify", "--rows", "8"], ["explain"]):
        assert main([command[0], "numbered.csv", "--id", "number", *command[1:]]) in (0, 1)
    declared = mc.load("fit.npz").declared
    assert declared.column("number").place is None
    assert main(["predict", "fit.npz", "numbered.csv", "--id", "number", "--out", "out.csv"]) == 0
    header, *lines = read("out.csv")
    assert [line[header.index("number")] for line in lines] == [line[-1] for line in table[1:]]


def test_predictions_have_intervals(place, capsys):
    command = ["impute", "table.csv", "--types", STAGES, "--save", "answer.npz"]
    assert main([*command, "--out", "done.csv", "--intervals", "0.9"]) == 0
    predict = ["predict", "answer.npz", "--intervals", "0.9", "--out"]
    assert main([*predict, "own.csv"]) == 0
    for end in ("lower", "upper"):
        assert read(f"own.{end}.csv") == read(f"done.{end}.csv")
    write("new.csv", read("table.csv")[:9])
    assert main([*predict[:2], "new.csv", *predict[2:], "rows.csv"]) == 0
    completed = mc.load("answer.npz", mc.Completion)
    for end in ("lower", "upper"):
        rows, whole = read(f"rows.{end}.csv"), read(f"own.{end}.csv")
        assert rows[0] == whole[0] == ["code", "height", "weight"]
        for row, other in zip(rows[1:], whole[1:], strict=False):
            assert float(row[1]) == pytest.approx(float(other[1]), abs=1e-6)
            assert row[2] == other[2]
    assert main([*predict[:2], "new.csv", "--column", "weight", *predict[2:], "weight.csv"]) == 0
    header, *known = read("weight.csv")
    assert header == ["code", "weight", "lower", "upper"]
    numbers = np.array(known, dtype=float)[:, 1:]
    assert np.all((numbers[:, 1] < numbers[:, 0]) & (numbers[:, 0] < numbers[:, 2]))
    with pytest.warns(UserWarning, match="count as missing: 'weight', 'smokes', 'stage'"):
        lower, _ = completed.interval_rows(pa.table({"height": [170.0], "code": ["new"]}), 0.9)
    assert lower.column_names == ["height", "weight"]
    assert main([*predict, "stage.csv", "--column", "stage"]) == 2
    assert "taken for: ordinal, which has no interval" in capsys.readouterr().err


def test_intervals_of_one_column_are_those_of_the_table(place):
    """Ends of whole numbers are whole in both."""
    rng = np.random.default_rng(0)
    counts = [str(count) for count in rng.poisson(3.0, 40)]
    rows = [[count if i % 4 else "", f"{rng.normal():.2f}"] for i, count in enumerate(counts)]
    write("counts.csv", [["visits", "x"], *rows])
    command = ["impute", "counts.csv", "--types", "visits=count", "--save", "answer.npz"]
    assert main([*command, "--out", "done.csv", "--intervals", "0.9"]) == 0
    predict = ["predict", "answer.npz", "--column", "visits", "--intervals", "0.9"]
    assert main([*predict, "--out", "visits.csv"]) == 0
    ends = np.array(read("visits.csv")[1::4], dtype=float)[:, 1:]
    for k, end in enumerate(("lower", "upper")):
        wanted = [float(row[0]) for row in read(f"done.{end}.csv")[1::4]]
        assert ends[:, k].tolist() == wanted


def test_columns_of_lists_name_no_rows(place):
    table = pa.table({"x": [1.0, 2.0, None, 4.0], "y": [1.0, 2.0, 3.0, 5.0], "tags": [[1]] * 4})
    pyarrow.parquet.write_table(table, "lists.parquet")
    command = ["impute", "lists.parquet", "--intervals", "0.9", "--out", "done.parquet"]
    assert main(command) == 0
    assert pyarrow.parquet.read_table("done.lower.parquet").column_names == ["x", "y"]


PYTHON = re.compile(
    r"\b(None|True|False|tuples?|dicts?|kwargs|keyword|mc\.\w+|(?!The)[A-Z]\w+Error)\b"
    r"|\b[a-z_]+=\{|\brandom_state\b|\bmethod='|\btypes\["
)


def of_python(text):
    """Words of Python, but in what users gave themselves: between quotes, or a truth value."""
    return PYTHON.findall(re.sub(r"'[^']*'|\((True|False)\)", "", text.replace("mc.Huber()", "")))


def test_a_list_of_warnings_stays_a_list():
    message = "two\n lines  in one\n\n- a list\n- of lines"
    assert in_one_line(message) == "two lines in one\n\n- a list\n- of lines"


def test_null_in_toml_is_a_text(place):
    toml = MODEL.replace('"Gaussian"', '{ is = "Gaussian", variance = "null" }')
    Path("null.toml").write_text(toml.replace(", weight = 0.5", ', weight = "null"'))
    model, columns = files.read_model("null.toml")
    assert model.blocks[0].likelihood == mc.Gaussian(variance=None)
    assert model.terms == (mc.NuclearNorm(),)
    assert columns["sizes"] == ["height", "weight"]
    Path("types.toml").write_text('height = ["number", 0, "null"]')
    assert files.read_types(["types.toml"]) == {"height": ["number", 0, None]}


@pytest.mark.parametrize("model", [[], ["--model", "model.toml", "--method", "posterior"]])
def test_intervals_and_draws_stand_beside_the_table(model, place):
    command = ["impute", "table.csv", "--out", "done.csv", "--intervals", "0.9", "--draws", "2"]
    assert main([*command, *model, "--types", STAGES, "--save", "answer.npz"]) == 0
    lower, done, upper = (read(f"done{k}.csv")[1:] for k in (".lower", "", ".upper"))
    for low, row, high in zip(lower, done, upper, strict=True):
        assert float(low[1]) <= float(row[1]) <= float(high[1])
    assert read("done.draw1.csv") != read("done.draw2.csv")
    assert main(["predict", "answer.npz", "--out", "again.csv"]) == 0
    assert read("again.csv") == read("done.csv")


def test_json_is_one_object_that_any_program_reads(place, capsys):
    assert main(["impute", "table.csv", "--out", "done.csv", "--json"]) == 0
    told = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (told["command"], told["status"], told["exit_code"]) == ("impute", "converged", 0)
    assert told["evidence"] < 0.0
    assert [each["type"] for each in told["columns"]][:3] == ["set aside", "number", "number"]
    assert told["outputs"] == [str(place / "done.csv")]
    assert "'code'" in told["warnings"][0]
    command = ["fit", "table.csv", "--out", "fit.npz", "--json"]
    assert main(command) == 0
    told = json.loads(capsys.readouterr().out)["certificate"]
    assert told["bound"] <= told["objective"]
    assert told["status"] == "certified"


def test_predict_answers_by_column_and_for_new_rows(fitted):
    completed = mc.load(fitted)
    assert main(["predict", fitted, "--out", "done.csv"]) == 0
    assert not any(cell == "" for row in read("done.csv") for cell in row)
    assert main(["predict", fitted, "--column", "stage", "--out", "stage.csv"]) == 0
    header, *known = read("stage.csv")
    assert header == ["code", "low", "mid", "high"]
    known = np.array(known)[:, 1:].astype(float)
    np.testing.assert_allclose(known.sum(axis=1), 1.0, atol=1e-12)
    write("new.csv", [["height", "stage"], ["145", ""], ["195", ""]])
    assert main(["predict", fitted, "new.csv", "--out", "rows.csv"]) == 0
    header, low, high = read("rows.csv")
    assert header == ["height", "stage", "weight", "smokes"]
    assert (low[1:2] + low[3:], high[1:2] + high[3:]) == (["low", "no"], ["high", "yes"])
    new = ["predict", fitted, "new.csv", "--column", "weight", "--out", "weight.csv"]
    assert main(new) == 0
    with pytest.warns(UserWarning, match="count as missing: 'weight', 'smokes', 'stage'"):
        told = completed.predict_rows("weight", pa.table({"height": [145.0, 195.0]}))
    assert read("weight.csv")[1:] == [[repr(value)] for value in told["weight"].to_pylist()]


def test_predictions_of_rows_of_the_fit_are_those_of_the_fit(fitted):
    completed = mc.load(fitted)
    table = completed.declared.frame.to_native()
    for name in ("weight", "smokes", "stage"):
        whole, rows = completed.predict(name), completed.predict_rows(name, table)
        for column in whole.column_names:
            np.testing.assert_allclose(rows[column], whole[column], rtol=1e-3, atol=1e-3)


def test_whole_numbers_of_new_rows_are_read_like_those_of_the_fit(fitted):
    write("new.csv", [["height", "weight"], ["160", "60"], ["", "83"]])
    assert main(["predict", fitted, "new.csv", "--out", "rows.csv"]) == 0
    height = float(read("rows.csv")[2][0])
    assert height != round(height)


def test_the_text_of_a_model_takes_columns(place):
    text = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)]).to_json()
    told = json.loads(text)
    told["model"]["blocks"][0]["columns"] = "*eight"
    Path("model.json").write_text(json.dumps(told))
    assert main(["impute", "table.csv", "--model", "model.json", "--out", "done.csv"]) == 0
    filled = read("done.csv")[1:]
    assert all(row[1] and row[2] for row in filled)
    assert not all(row[3] for row in filled)
    fit = mc.fit(mc.Model.from_json(text), {"x": np.array([[1.0, 2.0], [3.0, np.nan]])})
    assert fit.model == mc.Model.from_json(text)


def test_verify_and_explain(place, capsys):
    model = ["--model", "model.toml", "--types", STAGES]
    assert main(["verify", "table.csv", *model, "--rows", "12", "--tol", "1e-3"]) == 0
    assert "the two solvers agree" in capsys.readouterr().out
    assert main(["explain", "table.csv", *model, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["chosen"] in [each["name"] for each in told["backends"] if each["can_run"]]
    assert told["columns"][0]["why"] == "in no block of the model"


# Exit codes, interruptions


def test_a_fit_that_is_not_certified_is_written_and_exit_code_1(place, capsys, monkeypatch):
    monkeypatch.setattr(
        "mcframe.commands.verbs.fit",
        lambda *a, **options: mc.fit(*a, **{**options, "max_iter": 1}),
    )
    assert main(["fit", "table.csv", "--out", "fit.npz"]) == 1
    printed = capsys.readouterr()
    assert "Fit: iteration_limit" in printed.out
    assert "mcframe: warning: iteration_limit" in printed.err
    assert mc.load("fit.npz").fit.status == "iteration_limit"


def test_ctrl_c_during_a_fit_writes_the_best_answer(place, capsys, monkeypatch):
    def pressed(record):
        raise KeyboardInterrupt

    monkeypatch.setattr(
        "mcframe.commands.verbs.fit",
        lambda *a, **options: mc.fit(*a, **{**options, "callback": pressed}),
    )
    command = ["impute", "table.csv", "--model", "model.toml", "--types", STAGES]
    assert main([*command, "--out", "done.csv"]) == 1
    assert "interrupted" in capsys.readouterr().out
    assert len(read("done.csv")) == N_ROWS + 1


def test_ctrl_c_before_an_answer_writes_nothing(place, capsys, monkeypatch):
    def pressed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mcframe.commands.verbs.complete", pressed)
    assert main(["impute", "table.csv", "--out", "done.csv"]) == 130
    assert "nothing was written" in capsys.readouterr().err
    assert not Path("done.csv").exists()


def test_help_says_what_exit_codes_mean(capsys):
    for command in ("impute", "fit", "predict", "verify", "explain"):
        with pytest.raises(SystemExit) as caught:
            main([command, "--help"])
        assert caught.value.code == 0
        told = capsys.readouterr().out
        assert "2 a mistake in what was given" in told
        assert ("NAME=KIND" in told) == ("a model: a file" in told) == (command != "predict")


# Files that stay whole


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_an_input_is_never_overwritten(place, capsys, link):
    before = Path("table.csv").read_bytes()
    out = "table.csv"
    if link is not None:
        link("table.csv", "linked.csv")
        out = "linked.csv"
    assert main(["impute", "table.csv", "--out", out, "--overwrite"]) == 2
    assert "is an input, which is never overwritten" in capsys.readouterr().err
    assert Path("table.csv").read_bytes() == before


def test_an_output_that_exists_needs_overwrite(fitted, capsys):
    Path("done.csv").write_text("precious")
    os.symlink("done.csv", "to_done.csv")
    assert main(["predict", fitted, "--out", "to_done.csv"]) == 2
    assert "exists; give another path, or --overwrite" in capsys.readouterr().err
    assert Path("done.csv").read_text() == "precious"
    assert main(["predict", fitted, "--out", "to_done.csv", "--overwrite"]) == 0
    assert len(read("done.csv")) == N_ROWS + 1
    assert Path("to_done.csv").is_symlink()


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_a_full_disk_leaves_the_file_before_as_it_was(place, fitted, capsys, ending):
    """A limit on the size of files, which stops a process in the midst of writing."""
    Path(f"done.{ending}").write_text("precious")
    command = ["predict", fitted, "--out", f"done.{ending}", "--overwrite"]
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        assert main(command) == 2
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    [error] = capsys.readouterr().err.splitlines()
    assert "cannot be written (File too large)" in error
    assert Path(f"done.{ending}").read_text() == "precious"
    names = {"table.csv", "model.toml", "fit.npz", f"done.{ending}"}
    assert {path.name for path in place.iterdir()} == names


@pytest.fixture
def dated(place):
    """A table with dates as days, months and years, and its saved answer."""
    days = [f"{1 + k % 28:02d}.{1 + k % 12:02d}.2024" for k in range(60)]
    cells = [
        f"{day},{k % 7}.5,about 1" if k == 3 else f"{day},{k % 7}.5,{k}"
        for k, day in enumerate(days)
    ]
    Path("dated.csv").write_text("day,x,y\n" + "\n".join(cells) + "\n")
    types = ["--types", "day=date", "--types", "y=number"]
    options = ["--dates", "%d.%m.%Y", *types, "--out", "full.csv", "--save", "a.npz"]
    assert main(["impute", "dated.csv", *options]) == 0


def test_a_format_of_dates_that_fits_no_column_is_named(dated, capsys):
    main(["explain", "dated.csv", "--dates", "%Y-%m-%d"])
    assert "--dates %Y-%m-%d fits no column" in capsys.readouterr().err
    main(["explain", "dated.csv", "--dates", "%d.%m.%Y"])
    assert "fits no column" not in capsys.readouterr().err


def test_new_rows_whose_dates_are_text_get_a_remedy(dated, capsys):
    assert main(["predict", "a.npz", "dated.csv", "--out", "p.csv"]) == 2
    assert "'day' is taken for: date, but in the new rows its values are text" in (
        err := capsys.readouterr().err
    )
    assert "see --dates" in err


def test_a_warning_is_printed_once(dated, capsys):
    options = ["--dates", "%d.%m.%Y", "--intervals", "0.9", "--out", "p.csv"]
    assert main(["predict", "a.npz", "dated.csv", *options]) == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert len(warned) == len(set(warned)) > 0


# Mistakes on purpose

IMPUTE = ["impute", "table.csv", "--out", "done.csv"]
FIT = ["fit", "table.csv", "--out", "fit.npz", "--model"]


def bad_files():
    """Files with a mistake each, in the folder that the tests run in."""
    texts = {
        "empty.csv": "",
        "header.csv": "a,b\n",
        "ragged.csv": "a,b\n1,2\n3\n",
        "twice.csv": "a,a\n1,2\n3,4\n",
        "semicolons.csv": "a;b\n1;2\n",
        "latin.csv": "town,n\nK\xf6ln,1\n",
        "latin_later.csv": "town,n\n" + 9999 * "Bonn,1\n" + "K\xf6ln,1\n",
        "inf.csv": "a,b\n1.5,2\n3,4\n-Inf,6\n",
        "infinite.csv": "a,b\n1e999,2\n3,4\n5,6\n",
        "names.csv": "who\nann\nbob\ncid\n",
        "text.parquet": "no parquet",
        "text.arrow": "no arrow",
        "table.xlsx": "no table",
        "no.toml": "blocks = [",
        "list.json": "[1]",
        "blockless.toml": "terms = []",
        "columnless.toml": MODEL.replace('columns = ["smokes"]', ""),
        "unknown.toml": MODEL.replace('"Gaussian"', '"Gausian"'),
        "argument.toml": MODEL.replace("standardize = true", "standardise = true"),
        "nameless.toml": MODEL.replace('name = "smokers"', 'nam = "smokers"'),
        "term.toml": MODEL.replace("weight = 0.5", "wieght = 0.5"),
        "wordless.toml": MODEL.replace('is = "NuclearNorm", ', ""),
        "lacking.toml": MODEL.replace("0.5 }", '0.5 }, { is = "Calibration", block = "sizes" }'),
        "bias.toml": MODEL.replace("standardize = true", 'bias = "yes"'),
        "number.toml": MODEL.replace('likelihood = "Gaussian"', "likelihood = 3"),
        "place.toml": MODEL.replace('["smokes"]', "3"),
        "column.toml": MODEL.replace('"height"', '"hight"'),
        "again.toml": MODEL.replace('["smokes"]', '["height"]'),
        "weight.toml": MODEL.replace("0.5", "-0.5"),
        "termless.toml": MODEL.replace('[{ is = "NuclearNorm", weight = 0.5 }]', "[]"),
        "levels.toml": MODEL.replace("levels = 3", "levels = 4"),
        "words.toml": MODEL.replace('["height", "weight"]', '["code"]'),
        "old.json": '{"format": 1, "model": {}}',
        "types.toml": 'height = "numbr"',
        "likelihood.toml": 'height = { is = "Huber", delta = -1 }',
        "broken.npz": "no archive",
        "quote.csv": 'a,b\n1,x\n2,"y\n' + "3,x\n" * 9,
        "quotes.csv": 'a,b\n1,x\n2,"y\n3,x\n4,"z\n5,x\n6,y\n',
        "part.toml": MODEL.replace("terms =", "constraints = []\nterms ="),
        "null.toml": MODEL.replace('"Gaussian"', '{ is = "Gaussian", variance = null }'),
    }
    for name, text in texts.items():
        Path(name).write_text(text, encoding="latin-1" if "latin" in name else "utf-8")
    Path("wide.csv").write_text("a,b\n1,2\n", encoding="utf-16")
    Path("folder.csv").mkdir()


MISTAKES = [
    (["fit", "table.csv", "--model", "null.toml", "--out", "f.npz"], 'write "null" with quotes'),
    (["impute", "none.csv", "--out", "done.csv"], "there is no file 'none.csv'"),
    (["impute", "table.xlsx", "--out", "done.csv"], "the ending .csv, .parquet, .arrow, .feather"),
    (["impute", "folder.csv", "--out", "done.csv"], "is a folder"),
    (["impute", "empty.csv", "--out", "done.csv"], "the first line is empty"),
    (["impute", "header.csv", "--out", "done.csv"], "0 rows"),
    (
        ["impute", "ragged.csv", "--out", "done.csv"],
        "line 3 has 1 cell, and the first line has 2; add",
    ),
    (["impute", "twice.csv", "--out", "done.csv"], "2 columns of the table have the name 'a'"),
    (["impute", "semicolons.csv", "--out", "done.csv"], "such as --delimiter ';'"),
    (["impute", "latin.csv", "--out", "done.csv"], "such as --encoding latin-1"),
    (["impute", "latin_later.csv", "--out", "done.csv"], "such as --encoding latin-1"),
    (["impute", "inf.csv", "--out", "done.csv"], "value -inf in row 2 (counted from 0, without"),
    ([*IMPUTE, "--encoding", "utf-9"], "unknown encoding: utf-9"),
    (["impute", "wide.csv", "--out", "done.csv"], "such as --encoding utf-16"),
    (["impute", "quote.csv", "--out", "done.csv"], "line 3 and those after it have a quote that"),
    (["impute", "quotes.csv", "--out", "done.csv"], "line 3 and those after it have a quote that"),
    ([*IMPUTE, "--dates", "hello"], "is no format; give one such as %d.%m.%Y"),
    (["impute", "infinite.csv", "--out", "done.csv"], "every observed value must be finite"),
    (["impute", "names.csv", "--out", "done.csv"], "no column is left for a model"),
    (["impute", "text.parquet", "--out", "done.csv"], "cannot be read as parquet"),
    (["impute", "text.arrow", "--out", "done.csv"], "cannot be read as feather"),
    (["impute", "table.csv", "--out", "done.txt"], "the ending .csv, .parquet"),
    (["impute", "table.csv", "--out", "nowhere/done.csv"], "its folder does not exist"),
    (["impute", "table.csv", "--out", "folder.csv"], "is no file; give another path"),
    (["fit", "table.csv", "--out", "/proc/fit.npz"], "cannot be written"),
    ([*IMPUTE, "--save", "answer.csv"], "the ending .npz is needed"),
    ([*IMPUTE, "--types", "height"], "NAME=KIND or a file"),
    ([*IMPUTE, "--types", "height="], "NAME=KIND or a file"),
    ([*IMPUTE, "--types", "hight=number"], "'hight', which is no column; did you mean 'height'?"),
    ([*IMPUTE, "--id", "cod"], "--id 'cod' is no column of the table; did you mean 'code'?"),
    (
        [*IMPUTE, "--missing", "hight=-9"],
        "'hight' is no column of the table; did you mean 'height'?",
    ),
    (
        [*IMPUTE, "--types", "height=number", "--types", "height=count"],
        "'height' has a type already",
    ),
    ([*IMPUTE, "--types", "height=numbr"], "--types height=numbr: one of 'number'"),
    ([*IMPUTE, "--types", "stage=[low"], "is no JSON"),
    ([*IMPUTE, "--types", "stage=[low,mid]"], 'double quotes, as in \'stage=["I","II"]\''),
    ([*IMPUTE, "--types", "height=mc.Huber()"], 'a likelihood such as {"is": "Huber"} is'),
    ([*IMPUTE, "--types", 'height={"is":"Hubert"}'], "column 'height': is = 'Hubert' is no word"),
    ([*IMPUTE, "--types", 'stage=["low","mid"]'], "holds the value 'high'"),
    ([*IMPUTE, "--types", "smokes=number"], "its values are text ('"),
    ([*IMPUTE, "--types", "height=numbr"], "is needed; did you mean 'number'?"),
    ([*IMPUTE, "--types", "types.toml"], "--types height=numbr: one of 'number'"),
    ([*IMPUTE, "--types", "likelihood.toml"], "delta=-1"),
    ([*IMPUTE, "--types", "none.toml"], "there is no file 'none.toml'"),
    ([*IMPUTE, "--model", "model.toml", "--draws", "2"], "add --method posterior"),
    ([*IMPUTE, "--method", "optimum", "--intervals", "0.9"], "need a posterior, and this is an"),
    ([*FIT, "no.toml"], "cannot be read as TOML or JSON"),
    ([*FIT, "list.json"], "holds a list"),
    ([*FIT, "blockless.toml"], "a list of blocks and a list of terms are needed"),
    ([*FIT, "columnless.toml"], "block 'smokers' has no columns"),
    ([*FIT, "nameless.toml"], "block 2 has no name; add name = ..."),
    ([*FIT, "unknown.toml"], "'sizes': is = 'Gausian' is no word of mcframe; did you mean 'Gauss"),
    ([*FIT, "argument.toml"], "'sizes' has no 'standardise'; did you mean 'standardize'?"),
    ([*FIT, "term.toml"], "NuclearNorm has no 'wieght'; did you mean 'weight'?"),
    ([*FIT, "wordless.toml"], '{"weight": 0.5} does not say what it is; add is = ...'),
    ([*FIT, "lacking.toml"], "Calibration needs a value of 'A'; add it"),
    ([*FIT, "bias.toml"], "'sizes': bias='yes' was given; true or false is needed"),
    ([*FIT, "number.toml"], "'sizes': likelihood=3 was given; Likelihood is needed"),
    ([*FIT, "place.toml"], "'smokers' names the column 3; a text is needed"),
    ([*FIT, "column.toml"], "did you mean 'height'?"),
    ([*FIT, "again.toml"], "column 'height' is in block 'sizes' and again in 'smokers'"),
    ([*FIT, "weight.toml"], "weight=-0.5"),
    ([*FIT, "termless.toml"], "no term over all of Z"),
    ([*FIT, "levels.toml", "--types", STAGES], 'has the likelihood {"is": "Ordinal", "levels": 4'),
    ([*FIT, "words.toml"], "its values are text"),
    ([*FIT, "old.json"], "its format is 1"),
    ([*FIT, "part.toml"], "'constraints' is no part of a model; blocks and terms are"),
    ([*FIT, "model.toml"], "the order of its 3 values is not known"),
    ([*FIT, "model.toml", "--types", "stage=skip"], "it stands in block 'stages'"),
    (
        [*FIT, "model.toml", "--types", STAGES, "--checkpoint", "table.csv"],
        "was not written by mcframe",
    ),
    (["fit", "table.csv", "--out", "fit.csv"], "the ending .npz is needed"),
    (["predict", "none.npz", "--out", "done.csv"], "there is no file 'none.npz'"),
    (["predict", "broken.npz", "--out", "done.csv"], "was not written by mcframe"),
    (["predict", "fit.csv", "--out", "done.csv"], "there is no file 'fit.csv'"),
    (["verify", "table.csv", "--types", "height"], "NAME=KIND or a file"),
    (["explain", "table.csv", "--model", "unknown.toml"], "'Gausian'"),
]


@pytest.mark.parametrize(("arguments", "remedy"), MISTAKES)
def test_a_mistake_is_exit_code_2_and_one_line(place, capsys, arguments, remedy):
    bad_files()
    before = {path: path.stat().st_mtime_ns for path in place.iterdir()}
    assert main(arguments) == 2
    printed = capsys.readouterr()
    errors = [line for line in printed.err.splitlines() if ": warning: " not in line]
    assert len(errors) == 1, errors
    assert errors[0].startswith("mcframe: ")
    assert remedy in errors[0]
    assert not of_python(printed.err), printed.err
    assert printed.out == ""
    assert {path: path.stat().st_mtime_ns for path in place.iterdir()} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["impute"], "the following arguments are required: table, --out"),
        (["impute", "table.csv"], "required: --out"),
        ([*IMPUTE, "--intervals", "90"], "a number between 0 and 1 is needed"),
        ([*IMPUTE, "--draws", "0"], "a whole number from 1 is needed"),
        ([*IMPUTE, "--method", "magic"], "'magic' was given; the choices are posterior, optimum"),
        ([*IMPUTE, "--method", "optimun"], "'optimun' was given; did you mean 'optimum'?"),
        ([*IMPUTE, "--intevrals", "0.9"], "did you mean '--intervals'?"),
        (["predict", "f.npz", "--out", "d.csv", "--colunm=a"], "did you mean '--column'?"),
        (["demo", "--pictures", "a.png"], "did you mean '--picture'?"),
        (["--versoin"], "did you mean '--version'?"),
        ([*IMPUTE, "--delimiter", "tab"], "one character is needed"),
        ([*IMPUTE, "other.csv"], "unrecognized arguments: other.csv; see mcframe impute --help"),
        (["--bogus"], "unrecognized arguments: --bogus; the options are --help, --version; see"),
        (
            ["fit", "table.csv", "--out", "f.npz", "--tol", "0"],
            "a number between 0 and 1 is needed",
        ),
        (["fit", "table.csv", "--out", "f.npz", "--max-seconds", "-1"], "a number above 0"),
        (["fit", "table.csv", "--out", "f.npz", "--seed", "1.5"], "a whole number from 0"),
        (["verify", "table.csv", "--rows", "none"], "a whole number from 1 is needed"),
        (["inpute", "table.csv"], "'inpute' was given; did you mean 'impute'?"),
        (["complete", "table.csv"], "the verb complete of Python is 'impute' here"),
        (["frobnicate"], "the commands are impute, fit, predict, verify, explain, ratings, demo"),
    ],
)
def test_wrong_arguments_are_exit_code_2_and_one_line(place, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.count("\n") == 1
    assert message in error
    assert "--help" in error


def test_a_fit_without_a_table_cannot_predict_one(place, capsys):
    model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(0.5)])
    mc.fit(model, {"x": np.eye(3)}).save("plain.npz")
    assert main(["predict", "plain.npz", "--out", "done.csv"]) == 2
    assert "holds a Fit without the columns of a table" in capsys.readouterr().err


def test_predictions_of_unknown_columns_are_refused(fitted, capsys):
    write("new.csv", [["hight"], ["160"]])
    for command, message in (
        (["new.csv"], "declared table has not: 'hight'; did you mean 'height'? Otherwise drop"),
        (["--intervals", "0.9"], "save a posterior by mcframe impute --save"),
        (["--column", "hight"], "no column 'hight' in the table; did you mean 'height'?"),
        (["--column", "code"], "column 'code' stands in no block"),
    ):
        assert main(["predict", fitted, *command, "--out", "done.csv"]) == 2
        assert message in capsys.readouterr().err


def test_without_pyarrow_the_extra_is_named(place, capsys, monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "pyarrow"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for module in (own for own in vars(files).values() if isinstance(own, Deferred)):
        monkeypatch.setattr(module, "_imported", None)  # by an earlier test
    Path("table.parquet").write_bytes(b"PAR1")  # CSV needs no pyarrow: tests/test_delimited.py
    assert main(["impute", "table.parquet", "--out", "done.csv"]) == 2
    assert 'pip install "mcframe[cli]"' in capsys.readouterr().err


def test_a_full_disk_behind_the_output_is_one_line(place):
    command = [sys.executable, "-m", "mcframe", "explain", "table.csv", "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            check=False,
        )
    assert done.returncode == 2
    said = "mcframe: the output cannot be written (No space left on device)"
    assert done.stderr.splitlines()[-1] == said


@pytest.mark.parametrize(
    "ending", ["parquet", pytest.param("arrow", marks=pytest.mark.slow(seconds=3))]
)
@pytest.mark.slow(seconds=3)
def test_types_of_other_packages_stay_what_they_are(ending, place):
    """Periods are whole numbers to Arrow, unless pandas has told it otherwise."""
    months = pd.period_range("2020-01", periods=N_ROWS, freq="M")
    frame = pd.DataFrame({"height": np.sqrt(np.arange(N_ROWS)), "month": months})
    frame.loc[3, "height"] = np.nan
    {"parquet": frame.to_parquet, "arrow": frame.to_feather}[ending](f"months.{ending}")
    command = ["-m", "mcframe", "impute", f"months.{ending}", "--out", "done.csv"]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    assert pd.read_csv("done.csv")["month"].tolist() == [str(month) for month in months]


# Lists of ratings


@pytest.fixture(scope="module")
def liked(tmp_path_factory):
    """A folder with a list of ratings, those of other pairs, and what was hidden there."""
    folder = tmp_path_factory.mktemp("ratings")
    rng = np.random.default_rng(0)
    stars = 3.0 + np.outer(rng.standard_normal(40), rng.standard_normal(25))
    stars = np.clip(stars + 0.3 * rng.standard_normal(stars.shape), 1.0, 5.0).round(2)
    pairs = [(f"u{k:02d}", f"{j:02d}", stars[k, j]) for k in range(40) for j in range(25)]
    hidden = rng.random(len(pairs)) < 0.3
    seen = [pair for pair, gap in zip(pairs, hidden, strict=True) if not gap]
    rest = [pair for pair, gap in zip(pairs, hidden, strict=True) if gap]
    write(folder / "seen.csv", [["who", "film", "stars"], *seen])
    write(folder / "timed.csv", [["who", "film", "stars", "day"], *((*pair, 3) for pair in seen)])
    write(folder / "named.csv", [["user", "item", "rating"], *seen])
    write(folder / "rest.csv", [["film", "who"], *((film, who) for who, film, _ in rest)])
    write(folder / "twice.csv", [["who", "film", "stars"], *seen, seen[0]])
    write(folder / "strange.csv", [["who", "film"], ["u01", "07"], ["zoe", "07"]])
    return folder, seen, rest


RATINGS = ["ratings", "seen.csv", "--bounds", "1,5"]


def test_pairs_of_a_list_are_predicted_with_intervals(liked, monkeypatch, capsys):
    folder, seen, rest = liked
    monkeypatch.chdir(folder)
    asked = ["--pairs", "rest.csv", "--intervals", "0.9"]
    assert main([*RATINGS, *asked, "--out", "pairs.csv", "--save", "saved.npz"]) == 0
    assert "40 rows by 'who', 25 columns by 'film', values of 'stars'" in capsys.readouterr().out
    header, *lines = read("pairs.csv")
    assert header == ["film", "who", "predicted", "lower", "upper"]
    assert [(who, film) for film, who, *_ in lines] == [(who, film) for who, film, _ in rest]
    numbers = np.array([line[2:] for line in lines], dtype=float)
    truth = np.array([stars for *_, stars in rest])
    assert np.sqrt(np.mean(np.square(numbers[:, 0] - truth))) < 0.6 * truth.std()
    assert np.mean((numbers[:, 1] <= truth) & (truth <= numbers[:, 2])) > 0.8
    assert numbers.min() >= 1.0
    assert numbers.max() <= 5.0

    users, films, stars = zip(*seen, strict=True)
    triples = mc.from_triples(row=users, column=films, value=stars)
    block = mc.Block("stars", mc.Gaussian(variance=None), bias=True, bounds=(1, 5))
    model = mc.Model([block], [mc.NuclearNorm()])
    posterior = mc.posterior(model, {"stars": triples}, random_state=0)
    pairs = [(who, film) for who, film, _ in rest]
    np.testing.assert_allclose(numbers[:, 0], posterior.predict_pairs("stars", pairs), rtol=1e-9)
    ends = posterior.interval("stars", 0.9, pairs=pairs)
    np.testing.assert_allclose(numbers[:, 1:], np.column_stack(ends), rtol=1e-9)

    assert main(["ratings", "saved.npz", *asked, "--out", "again.csv"]) == 0
    assert read("again.csv") == read("pairs.csv")
    timed = ["ratings", "timed.csv", "--columns", "who,film,stars", "--bounds", "1,5"]
    assert main([*timed, *asked, "--out", "timed_pairs.csv"]) == 0
    assert read("timed_pairs.csv") == read("pairs.csv")

    assert main(["ratings", "saved.npz", "--top", "3", "--out", "best.csv"]) == 0
    header, *lines = read("best.csv")
    assert header == ["who", "film", "predicted", "sd"]
    assert len(lines) == 3 * 40
    assert not {(who, film) for who, film, *_ in lines} & set(zip(users, films, strict=True))
    expected = posterior.top("stars", ["u00"], n=3)
    assert [line[1] for line in lines[:3]] == [film for _, film, *_ in expected]
    capsys.readouterr()

    assert main(["ratings", "saved.npz", "--pairs", "strange.csv", "--out", "unsure.csv"]) == 0
    assert "1 of 2 pairs have a 'who' or 'film' that the list does not" in capsys.readouterr().err
    assert read("unsure.csv")[2] == ["zoe", "07", ""]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ratings", "timed.csv"], "4 columns ('who', 'film', 'stars', 'day') where a list has"),
        (["ratings", "seen.csv", "--columns", "who,flim,stars"], "did you mean 'film'?"),
        (["ratings", "seen.csv", "--columns", "who,film"], "2 columns ('who', 'film') where"),
        (["ratings", "twice.csv"], "--duplicates"),
        (["ratings", "seen.csv", "--bounds", "5,1"], "the lower one first, such as 1,5"),
        (["ratings", "seen.csv", "--bounds", "2,5"], "bounds are (2.0, 5.0)"),
        (["ratings", "seen.csv", "--columns", "who,stars,film"], "value '00' at who 'u00', stars"),
        (["ratings", "seen.csv", "--top", "3", "--pairs", "rest.csv"], "leave out it or --pairs"),
        (["ratings", "seen.csv", "--pairs", "seen.csv", "--out", "seen.csv"], "is an input"),
        (["ratings", "none.csv"], "there is no file 'none.csv'"),
        (["ratings", "plain.npz"], "holds a Fit of no list; give a list"),
        (["ratings", "plain.npz", "--bounds", "1,5"], "--bounds belongs to a list"),
    ],
    ids=" ".join,
)
def test_mistakes_with_lists_of_ratings(arguments, message, liked, monkeypatch, capsys):
    monkeypatch.chdir(liked[0])
    if "plain.npz" in arguments:
        model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
        mc.fit(model, {"x": np.eye(3)}).save("plain.npz")
    with contextlib.suppress(SystemExit):
        assert main([*arguments[:2], "--out", "none_out.csv", *arguments[2:]]) == 2
    assert message in capsys.readouterr().err
    assert not Path("none_out.csv").exists()


def test_a_list_in_the_place_of_a_table_names_the_command(liked, monkeypatch, capsys):
    monkeypatch.chdir(liked[0])
    assert main(["explain", "named.csv"]) == 0
    assert "mcframe ratings, with --columns user,item,rating" in capsys.readouterr().err


def test_explain_names_columns_as_the_file_does(place, capsys):
    rows = [[f"{0.5 * k:.1f}", str(k % 5 + k), "abc"[k % 3]] for k in range(12)]
    write("named.csv", [["age", "weight", "town"], *rows])
    assert main(["explain", "named.csv"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    first = [line[0] for line in lines if line]
    assert {"'age'", "'weight'", "'town'"} <= set(first)
    assert not {"0", "1"} & set(first)
