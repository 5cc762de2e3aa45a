"""Random commands on tables in files, one of the verbs of ``fuzzing``."""

import contextlib
import io
import os
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st

from mcframe.__main__ import main
from mcframe.tables.gaps import SIGNS_OF_MISSING

from .strategies import frames
from .test_command_line import of_python
from .test_plugins import FOLDER

LOG_COSH = FOLDER / "log_cosh.py"

# How a table is written, by pandas' names, and the same as arguments of a command.
DIALECTS = [
    *({}, {}, {"sep": ";", "decimal": ","}, {"sep": "\t", "encoding": "utf-16"}),
    *({"sep": "|", "encoding": "latin-1"}, {"date_format": "%d.%m.%Y"}, {"na_rep": "-999"}),
]
ARGUMENTS = {"sep": "--delimiter", "date_format": "--dates", "na_rep": "--missing"}
COMMANDS = {
    "impute": ["impute", "{table}", "--out", "done.csv"],
    "impute to another form": ["impute", "{table}", "--out", "done.parquet"],
    "fit": ["fit", "{table}", "--out", "fit.npz", "--max-seconds", "2"],
    "verify": ["verify", "{table}", "--rows", "6", "--max-seconds", "2"],
    "explain": ["explain", "{table}"],
    "ratings": [
        *("ratings", "{table}", "--columns", "town,kinds,numbers", "--duplicates", "mean"),
        *("--top", "2", "--out", "done.csv"),
    ],
    "predict": ["predict", "saved.npz", "--out", "done.csv"],
}
# What is predicted by, and the options of ``predict``.
SAVED = [
    ["impute", "{table}", "--out", "first.csv", "--save", "saved.npz"],
    ["impute", "{table}", "--out", "first.csv", "--save", "saved.npz", "--id", "numbers"],
    ["impute", "{table}", "--out", "first.csv", "--save", "saved.npz", "--model", "model.toml"],
    ["fit", "{table}", "--out", "saved.npz", "--max-seconds", "2"],
]
OF_PREDICT = [
    *(["--intervals", "0.9"], ["--intervals", "0.5"], ["--intervals", "2"], ["--id", "numbers"]),
    *(["--id", "no"], ["--column", "numbers"], ["--column", "numbrs"], ["--column", "kinds"]),
    *(["--column", "town"], ["--json"], ["{table}"], ["{table}"], ["rows.csv"], ["no.csv"]),
    *(["--missing", "6"], ["--missing", "no=1"], ["--delimiter", "|"], ["--decimal", ","]),
    *(["--overwrite"], ["--out", "{table}"], ["--out", "first.csv"], ["--nonsense"]),
]
MORE = [
    *(["--id", "numbers"], ["--id", "no"], ["--intervall", "1"], ["--tpyes", "a=number"]),
    *(["--intervals", "0.9"], ["--draws", "2"], ["--method", "optimum"], ["--save", "saved.npz"]),
    *(["--json"], ["--seed", "3"], ["--types", "numbers=number"], ["--types", "whole=count"]),
    *(["--types", "kinds=skip"], ["--types", "town=number"], ["--types", "no=number"]),
    *(["--types", "halves=[0.5,1.0,1.5,2.0]"], ["--types", "scale=[1.0,2.0,3.0,4.0,5.0,9.0]"]),
    *(["--delimiter", "|"], ["--decimal", ","], ["--encoding", "utf-8"], ["--missing", "6"]),
    *(["--missing", "numbers=0"], ["--missing", "ND"], ["--missing", "coded=-99"]),
    *(["--dates", "%Y-%m-%d"], ["--dates", "%H:%M"], ["--model", "model.toml"], ["--tol", "0.1"]),
    ["--plugin", str(LOG_COSH), "--types", 'numbers={{"is":"LogCosh"}}'],
    *(["--plugin", "no_such_module"], ["--backend", "proximal"], ["--backend", "reference"]),
    *(["--backend", '{{"is":"FPC","eta":0.5}}'], ["--backend", "proxmal"]),
    *(["--method", "posterior"], ["--out", "{table}"], ["--out", "no/done.csv"], ["--nonsense"]),
]
BY_HAND = """
terms = [{ is = "NuclearNorm", weight = 0.5 }]
blocks = [{ name = "own", columns = ["numbers"], likelihood = "Gaussian", bias = true }]
"""


def command_lines(draw):
    """A command on a table in a file: CSV of any form, Parquet or Arrow."""
    frame, ending = draw(frames())[0], draw(st.sampled_from(["csv", "csv", "parquet", "arrow"]))
    dialect = draw(st.sampled_from(DIALECTS)) if ending == "csv" else {}
    name, told = draw(st.sampled_from(list(COMMANDS))), draw(st.integers(0, 3)) > 0
    saved = draw(st.sampled_from(SAVED))
    more = draw(st.lists(st.sampled_from(OF_PREDICT if name == "predict" else MORE), max_size=3))
    if told and name != "predict":
        more += [[ARGUMENTS.get(key, f"--{key}"), value] for key, value in dialect.items()]
    table = f"table.{ending}"
    given, first = (
        [text.format(table=table) for text in arguments]
        for arguments in ([*COMMANDS[name], *chain(*more)], saved)
    )

    def call():
        for file in os.scandir():
            os.unlink(file)
        Path("model.toml").write_text(BY_HAND)
        try:
            write = {"csv": lambda path: frame.to_csv(path, index=False, **dialect)}
            write |= {"parquet": frame.to_parquet, "arrow": frame.to_feather}
            write[ending](table)
        except (pa.ArrowException, OverflowError):  # no column of these formats
            return "no such file"
        if name == "predict":
            frame.head(3).iloc[:, ::-1].to_csv("rows.csv", index=False)
            with contextlib.redirect_stderr(io.StringIO()) as told_to_users:
                code = main(first)
            assert not of_python(told_to_users.getvalue()), told_to_users.getvalue()
            if code == 2:
                return "nothing saved"
        before = Path(table).read_bytes()
        with contextlib.redirect_stderr(io.StringIO()) as told_to_users:
            try:
                code = main(given)
            except SystemExit as left:
                code = left.code
        lines = told_to_users.getvalue().splitlines()
        assert Path(table).read_bytes() == before, "the input was written"
        assert all(line.startswith("mcframe") or not line for line in lines), lines
        assert code != 2 or len(lines) > 0
        assert not of_python(told_to_users.getvalue()), lines
        assert code in (0, 1, 2), code
        changed = [option for option in more if option[0] in ("--types", "--dates", "--missing")]
        if code != 2 and given[0] == "impute" and "done.csv" in given and told and not changed:
            check_cells(frame, dialect)
        if code == 0 and name == "predict":
            check_ends("--intervals" in given, "--column" in given)
        elif code != 2 and name == "ratings":
            check_ratings(frame, "--intervals" in given)
        elif code != 2 and "saved.npz" in given:
            assert main(["predict", "saved.npz", "--out", "again.csv"]) in (0, 1)
            whole = "--intervals" in given
            asked = ["--intervals", "0.5", "--overwrite", "--out", "again.csv"]
            assert main(["predict", "saved.npz", *asked]) in ((0, 1) if whole else (0, 1, 2))
        return f"exit code {code}"

    given_first = f"{' '.join(first)}; " * (name == "predict")
    return f"{given_first}{' '.join(given)} {dialect} {frame.to_dict('list')!r}", call


def check_ends(has_intervals, is_one_column):
    """Numbers lie between the ends of their intervals, which are columns or files of their own."""
    if not has_intervals:
        return
    if is_one_column:
        done = pd.read_csv("done.csv")
        assert not (done["lower"] > done["upper"]).any()
        return
    if not Path("done.lower.csv").read_text().strip():  # no column has an interval
        assert not Path("done.upper.csv").read_text().strip()
        return
    lower, done, upper = (pd.read_csv(f"done{end}.csv") for end in (".lower", "", ".upper"))
    for name in set(lower.select_dtypes("number")) & set(upper.select_dtypes("number")):
        assert not (lower[name] > upper[name]).any(), name
    assert len(lower) == len(done) == len(upper)


def check_ratings(frame, has_intervals):
    """At most two finite predictions for each label of a row, within their intervals."""
    done = pd.read_csv("done.csv", dtype={"town": str}, keep_default_na=False)
    assert done["town"].value_counts().max() <= 2
    assert set(done["town"]) <= set(frame["town"].dropna().astype(str))
    assert np.isfinite(done["predicted"]).all()
    if has_intervals:
        assert (done["lower"] <= done["upper"]).all()


def check_cells(frame, dialect):
    """What was observed stands in the answer, as text or as the same number or time."""
    options = {"dtype": str, "keep_default_na": False, "index_col": False}
    form = {key: dialect[key] for key in ("sep", "encoding", "decimal") if key in dialect}
    frame.to_csv("whole.csv", index=False, **dialect)
    told, done = pd.read_csv("whole.csv", **options, **form), pd.read_csv("done.csv", **options)
    assert list(told) == list(done)
    assert len(told) == len(done)
    for name in told:
        for before, after in zip(told[name], done[name], strict=True):
            text = before.replace(form.get("decimal", "."), ".")
            if text.strip().lower() in {*SIGNS_OF_MISSING, "-999"} or text == after:
                continue
            kind = {"day": pd.Timestamp, "spans": pd.Timedelta}.get(name, float)
            assert kind(text) == kind(after), (name, before, after)
