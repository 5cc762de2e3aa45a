"""The demo and its command line, on tables small enough for seconds."""

import subprocess
import sys
from functools import partial

import numpy as np
import pytest

import mcframe as mc
from mcframe.__main__ import main
from mcframe.commands import demo
from mcframe.commands.demo import (
    TABLES,
    DemoTable,
    columns_of,
    errors_of,
    filled_by,
    frame_of,
    peers,
)

QUICK = ["demo", "--table", "wine", "--rows", "60", "--tol", "1e-4"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table():
    """Numbers on a line, and a category of three levels by their order."""
    x = np.linspace(-1.0, 1.0, 90)
    values = np.array(["a", "b", "c"], dtype=object)[np.arange(90) // 30]
    return DemoTable("a line", {"up": 10.0 + x, "down": -2.0 * x}, "level", values)


@pytest.fixture
def hurried(monkeypatch):
    """The demo without trees, which are not what a test looks at."""
    _, neighbours = peers(0).values()
    monkeypatch.setattr(demo, "complete", partial(mc.complete, nonlinear=False))
    monkeypatch.setattr(demo, "peers", lambda seed: dict.fromkeys(peers(seed), neighbours))


def hidden_of(table):
    """At most one gap in a row, so that the others tell it."""
    which = np.random.default_rng(0).integers(0, 10, len(table.values))
    return {name: which == place for place, name in enumerate(table.columns)}


# The whole demo


def test_the_demo_compares_certifies_verifies_and_draws(place, capsys):
    assert main([*QUICK, "--picture", "some.png"]) == 0
    out = capsys.readouterr().out
    assert "60 rows, 14 columns" in out
    assert "Completion: " in out
    assert "mcframe  extra trees   neighbours" in out
    assert "90% intervals hold" in out
    assert "minimise over Z, b" in out
    assert "Fit: certified" in out
    assert "the two solvers agree" in out
    assert (place / "some.png").read_bytes().startswith(b"\x89PNG")
    assert max(len(line) for line in out.splitlines() if not line.startswith("picture")) <= 120


@pytest.mark.slow
def test_the_default_is_better_than_both_peers(place, capsys):
    """In numbers and category; the intervals hold what they say."""
    assert main(["demo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for begin in ("mean of numbers", "diagnosis, wrong"):
        (line,) = [line for line in lines if line.startswith(begin)]
        ours, *theirs = [float(word.rstrip("%")) for word in line.split()[-3:]]
        assert ours < min(theirs)
    (said,) = [line for line in lines if "intervals hold" in line]
    assert 85 <= int(said.split("hold ")[1].split("%")[0]) <= 95


@pytest.mark.slow
def test_equal_seeds_give_equal_prints_but_for_times(place, capsys):
    def printed(seed: str) -> list[str]:
        main([*QUICK, "--seed", seed])
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if line.startswith(("  objective", "mean of numbers"))]

    first = printed("1")
    assert printed("1") == first
    assert printed("2") != first


def test_a_fit_that_is_not_certified_is_exit_code_1(place, capsys, monkeypatch, hurried):
    def stopped(*arguments, **options):
        return mc.fit(*arguments, **{**options, "max_iter": 1})

    monkeypatch.setattr(demo, "fit", stopped)
    assert main(QUICK) == 1
    assert "Fit: iteration_limit" in capsys.readouterr().out


def test_ctrl_c_is_one_line(place, capsys, monkeypatch):
    def pressed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "complete", pressed)
    assert main(QUICK) == 130
    assert capsys.readouterr().err.strip() == "mcframe: interrupted"


def test_without_matplotlib_the_demo_says_how_to_get_it(place, capsys, monkeypatch, hurried):
    for name in [name for name in sys.modules if name.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert main(QUICK) == 0
    assert 'pip install "mcframe[plot]"' in capsys.readouterr().out
    assert not (place / "demo.png").exists()


# Mistakes of the user


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["--picture", "a.doc"], "the ending .png, .pdf, .svg is needed"),
        (["--picture", "nowhere/a.png"], "its folder does not exist; make it first"),
        (["--rows", "2"], "2 rows are too few to hide entries of 'radius'; take more"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line_with_the_remedy(place, capsys, arguments, remedy):
    assert main(["demo", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mcframe: ")
    assert error.count("\n") == 1
    assert remedy in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmo"], "did you mean 'demo'?"),
        (["demo", "--table", "wines"], "did you mean 'wine'?"),
        (["demo", "--rows", "0"], "'0' was given; a whole number from 1 is needed"),
        (["demo", "--tol", "2"], "'2' was given; a number between 0 and 1 is needed"),
        (["demo", "--seed", "x"], "'x' was given; a whole number from 0 is needed"),
        (["demo", "--frobnicate"], "--frobnicate"),
    ],
)
def test_wrong_arguments_are_exit_code_2_and_one_line(capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    error = capsys.readouterr().err
    assert caught.value.code == 2
    assert error.count("\n") == 1
    assert message in error
    assert "--help" in error


def test_without_a_command_the_help_is_printed(capsys):
    assert main([]) == 0
    assert "mcframe impute table.csv --out done.csv" in capsys.readouterr().out


def test_the_module_runs_as_a_command():
    command = [sys.executable, "-m", "mcframe", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"mcframe {mc.__version__}\n"


# Its parts


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_numbers_and_a_category_without_gaps(name):
    table = TABLES[name]()
    assert all(np.isfinite(values).all() for values in table.numbers.values())
    assert {len(values) for values in table.columns.values()} == {len(table.values)}
    assert 2 <= len(set(table.values)) <= 3


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_any_library_of_tables_holds_the_same_gaps(table, library, monkeypatch):
    monkeypatch.setattr(demo, "FRAMES", (library,))
    hidden = hidden_of(table)
    frame = frame_of(table, hidden)
    assert type(frame).__module__.startswith(library)
    columns = columns_of(frame)
    np.testing.assert_array_equal(np.isnan(columns["up"]), hidden["up"])
    gaps = [value is None or value != value for value in columns["level"]]
    np.testing.assert_array_equal(gaps, hidden["level"])


def test_without_any_library_of_tables_it_says_which_is_needed(table, monkeypatch):
    monkeypatch.setattr(demo, "FRAMES", ())
    with pytest.raises(mc.DataError, match=r'pip install "mcframe\[pandas\]"'):
        frame_of(table, hidden_of(table))


@pytest.mark.parametrize("name", ["extra trees", "neighbours"])
def test_both_peers_fill_a_line(table, name):
    """Far better than means and the commonest level; observed entries stay as they are."""
    hidden = hidden_of(table)
    filled = filled_by(peers(0)[name], table, hidden)
    errors = errors_of(filled, table, hidden)
    assert max(errors.values()) < 0.5
    for column, values in table.numbers.items():
        seen = ~hidden[column]
        np.testing.assert_allclose(filled[column][seen], values[seen])
    assert set(filled["level"]) == {"a", "b", "c"}


def test_errors_are_in_standard_deviations_of_observed_entries():
    table = DemoTable("", {"x": np.array([0.0, 2.0, 5.0, 7.0])}, "y", np.array(list("aabb")))
    gaps = np.array([False, False, True, True])
    filled = {"x": np.array([0.0, 2.0, 8.0, 11.0]), "y": np.array(list("aaba"))}
    errors = errors_of(filled, table, {"x": gaps, "y": gaps})
    assert errors == pytest.approx({"x": np.sqrt((9.0 + 16.0) / 2.0), "y": 0.5})
