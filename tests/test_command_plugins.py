"""Commands take likelihoods, terms and solvers from modules of the user, named by --plugin."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import mcframe as mc
from mcframe.__main__ import main

from .test_plugins import FOLDER, LogCosh

MODEL = """
terms = [{ is = "NuclearNorm", weight = 1.0 }, { is = "RowLasso", weight = 0.1 }]

[[blocks]]
name = "x"
columns = ["a", "b", "c"]
likelihood = { is = "log_cosh.LogCosh", delta = 0.5 }
"""
PLUGINS = [f"--plugin={FOLDER / name}.py" for name in ("log_cosh", "row_lasso", "plain_gradient")]
SOLVER = '{"is": "Splitting", "inner": {"is": "PlainGradient"}}'


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a table, a model of words from outside, and a likelihood of labels."""
    rng = np.random.default_rng(0)
    values = rng.standard_normal((24, 2)) @ rng.standard_normal((2, 3))
    missing = rng.random((24, 3)) < 0.3
    missing[:, 0] = False  # so that no row is empty
    frame = pd.DataFrame(np.where(missing, np.nan, values), columns=list("abc"))
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.head(3).to_csv(tmp_path / "new.csv", index=False)
    (tmp_path / "model.toml").write_text(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def command(*arguments, code=0):
    """What a command prints, run by a Python of its own, which knows of no plugin."""
    done = subprocess.run(
        [sys.executable, "-m", "mcframe", *arguments], capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.mark.slow(seconds=9)
def test_every_command_takes_them(place):
    said = command("explain", "table.csv", "--model", "model.toml", *PLUGINS)
    assert "0.1 Σ_i ‖z_i‖" in said
    model = ["table.csv", "--model", "model.toml", *PLUGINS, "--backend", SOLVER]
    assert "the two solvers agree" in command("verify", *model, "--rows", "10")
    assert "certified" in command("fit", *model, "--out", "fit.npz", "--checkpoint", "part")
    command("impute", *model, "--out", "done.csv", "--save", "saved.npz")
    command("predict", "fit.npz", "--out", "fitted.csv", *PLUGINS)
    assert not pd.read_csv("fitted.csv").isna().any(axis=None)
    command("predict", "saved.npz", "--out", "again.csv", *PLUGINS)
    assert (place / "again.csv").read_text() == (place / "done.csv").read_text()


def test_the_fit_is_that_of_python(place):
    command("fit", "table.csv", "--model", "model.toml", *PLUGINS[:2], "--out", "fit.npz")
    assert main(["predict", "fit.npz", "--out", "done.csv", *PLUGINS[:2]]) == 0
    frame = pd.read_csv("table.csv")
    lasso = mc.load("fit.npz").fit.model.terms[1]
    model = mc.Model([mc.Block("x", LogCosh(0.5))], [mc.NuclearNorm(1.0), lasso])
    fit = mc.fit(model, {"x": frame})
    np.testing.assert_allclose(
        pd.read_csv("done.csv").to_numpy(), np.asarray(fit.impute("x")), atol=1e-12
    )


@pytest.mark.slow(seconds=4)
def test_types_name_them(place):
    kind = ["--types", 'a={"is":"LogCosh","delta":0.3}', "--method", "optimum"]
    command("impute", "table.csv", "--out", "done.csv", *kind, PLUGINS[0])
    said = command("impute", "table.csv", "--out", "no.csv", *kind, code=2)
    assert "is = 'LogCosh' is no word of mcframe" in said


@pytest.mark.slow(seconds=5)
def test_modules_are_found_in_the_current_folder(place):
    source = (FOLDER / "log_cosh.py").read_text()
    (place / "my_words.py").write_text(source)
    (place / "model.toml").write_text(
        MODEL.replace("log_cosh.", "my_words.").replace(', { is = "RowLasso", weight = 0.1 }', "")
    )
    model = ["table.csv", "--model", "model.toml"]
    assert "certified" in command("fit", *model, "--out", "fit.npz", "--plugin", "my_words")
    rows = ["predict", "fit.npz", "new.csv", "--out", "done.csv"]
    command(*rows, "--plugin", "my_words")
    assert not pd.read_csv("done.csv").isna().any(axis=None)
    said = command(*rows, "--overwrite", code=2)
    assert "'my_words.LogCosh' is a class from outside" in said
    assert "--plugin MODULE" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--plugin", "no_such_module"], "'no_such_module' cannot be imported: No module named"),
        (["--plugin", "no_such.py"], "'no_such.py': there is no such file"),
        (["--plugin", "json"], "'json' declares no class that models and files can name"),
        (["--plugin", "statistics.py"], "another module is called 'statistics'"),
        (["--plugin", "broken.py"], "'broken.py' cannot be imported: ZeroDivisionError"),
        (["--backend", "proxmal"], "did you mean 'proximal'"),
        (["--backend", '{"is": "Huber"}'], "is a Huber; a solver is needed"),
        (["--backend", '{"is": '], "is no JSON"),
        (["--backend", "alternating", "--model", "model.toml", *PLUGINS], "cannot run"),
        (["--backend", "factored"], "--backend is that of the optimum of a model"),
    ],
)
def test_mistakes_are_one_line(place, capsys, arguments, message):
    (place / "statistics.py").write_text("")
    (place / "broken.py").write_text("1 / 0")
    verb = "impute" if "factored" in arguments else "fit"
    assert main([verb, "table.csv", "--out", "out.npz", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
