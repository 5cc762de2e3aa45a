"""The demo and its command line, on tables small enough for seconds."""

import os
import subprocess
import sys
from argparse import Namespace

import attrs
import numpy as np
import pytest

import mcframe as mc
from mcframe.__main__ import main
from mcframe.commands.demo import SCALES, change, choose, declare, regressions, standardized
from mcframe.datasets import MultiLabel, digits, hide
from mcframe.plots import draw_pixels

QUICK = ["demo", "--items", "120", "--weight", "0.0003", "--tol", "1e-4"]

DATA = os.environ.get("MCFRAME_DATA", "")
needs_data = pytest.mark.skipif(
    not DATA,
    reason="real files: set MCFRAME_DATA to the folder that holds them",
)


def table() -> MultiLabel:
    n_items, rng = 60, np.random.default_rng(0)
    factor = rng.standard_normal((n_items, 2))
    features = 3.0 + factor @ rng.standard_normal((2, 8)) + 0.1 * rng.standard_normal((n_items, 8))
    labels = factor @ rng.standard_normal((2, 3)) > 0
    return MultiLabel("small", features, labels)


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MCFRAME_DATA", raising=False)
    return tmp_path


# The whole demo


def test_the_demo_certifies_compares_and_draws(place, capsys):
    assert main([*QUICK, "--picture", "some.png"]) == 0
    out = capsys.readouterr().out
    assert "120 items, 64 features" in out
    assert "minimise over Z, b" in out
    assert "Fit: certified" in out
    assert "iteration" in out
    assert "column means, logistic regression" in out
    assert (place / "some.png").read_bytes().startswith(b"\x89PNG")
    assert max(len(line) for line in out.splitlines() if not line.startswith("picture")) <= 100


def test_the_demo_takes_a_file_and_says_its_units(place, capsys):
    data = table()
    np.savez("mine.npz", X=data.features, Y=data.labels)
    assert main(["demo", "--data", "mine.npz", "--tol", "1e-4"]) == 0
    out = capsys.readouterr().out
    assert "mine: 60 items, 8 features" in out
    assert "standard deviations" in out
    assert "chosen: label scale" in out
    assert not (place / "demo.png").exists()


@pytest.mark.slow
def test_equal_seeds_give_equal_prints_but_for_times(place, capsys):
    def printed(seed: str) -> list[str]:
        main([*QUICK, "--seed", seed])
        lines = capsys.readouterr().out.splitlines()
        return [line for line in lines if line.startswith(("  objective", "against"))]

    first = printed("1")
    assert printed("1") == first
    assert printed("2") != first


def test_a_fit_that_is_not_certified_is_exit_code_1(place, capsys, monkeypatch):
    def hurried(*arguments, **options):
        return mc.fit(*arguments, **{**options, "max_iter": 1})

    monkeypatch.setattr("mcframe.commands.demo.fit", hurried)
    assert main(QUICK) == 1
    assert "Fit: iteration_limit" in capsys.readouterr().out


def test_ctrl_c_during_the_fit_still_gives_an_answer(place, capsys, monkeypatch):
    def stopped(model, data, **options):
        seen = []

        def callback(record):
            seen.append(record)
            if len(seen) == 2:
                raise KeyboardInterrupt

        return mc.fit(model, data, **options, callback=callback)

    monkeypatch.setattr("mcframe.commands.demo.fit", stopped)
    assert main(QUICK) == 1
    out = capsys.readouterr().out
    assert "Fit: interrupted" in out
    assert "against the baseline" in out


def test_ctrl_c_elsewhere_is_one_line(place, capsys, monkeypatch):
    def pressed(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("mcframe.commands.demo.cross_validate", pressed)
    assert main(QUICK) == 130
    assert capsys.readouterr().err.strip() == "mcframe: interrupted before there was a fit"


def test_without_matplotlib_the_demo_says_how_to_get_it(place, capsys, monkeypatch):
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
        (["--data", "none.npz"], "give its full path, or name its folder in MCFRAME_DATA"),
        (["--data", "text.npz"], "write one with numpy.savez(path, X=features, Y=labels)"),
        (["--data", "no_x.npz"], "has no array 'X', it holds 'Y'; write one with numpy.savez"),
        (["--data", "tiny.npz"], "too few to hide 50% of them; take more items"),
        (["--data", "tiny.npz", "--picture", "a.png"], "leave one of them out"),
        (["--picture", "a.doc"], "the ending .png, .pdf, .svg is needed"),
        (["--picture", "nowhere/a.png"], "its folder does not exist; make it first"),
        (["--items", "3"], "take more items"),
    ],
)
def test_a_mistake_is_exit_code_2_and_one_line_with_the_remedy(place, capsys, arguments, remedy):
    (place / "text.npz").write_text("id,age\n1,2\n")
    np.savez(place / "no_x.npz", Y=np.eye(2))
    np.savez(place / "tiny.npz", X=np.eye(2), Y=np.eye(2))
    assert main(["demo", *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mcframe: ")
    assert error.count("\n") == 1
    assert remedy in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dmo"], "invalid choice: 'dmo' (choose from"),
        (["demo", "--weight", "-1"], "'-1' was given; a number above 0 is needed"),
        (["demo", "--tol", "2"], "'2' was given; a number below 1 is needed"),
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


def test_standardising_looks_at_observed_entries_only():
    features = table().features
    hidden = hide(features, 0.3)
    observed = np.where(hidden, np.nan, features)
    expected = (features - np.nanmean(observed, axis=0)) / np.nanstd(observed, axis=0)
    np.testing.assert_allclose(standardized(features, hidden), expected, rtol=1e-12, atol=1e-12)


def test_a_constant_column_is_shifted_only():
    features = np.column_stack([np.full(60, 2.0), np.arange(60.0)])
    assert np.array_equal(standardized(features, hide(features, 0.3))[:, 0], np.zeros(60))


def test_at_the_largest_weight_and_not_below_it_nothing_is_left():
    """It is one weight for all label scales, so that they share the weights that are tried."""
    data = table()
    observed = {"features": data.features, "labels": np.where(hide(data.labels, 0.5), np.nan, 1.0)}
    observed["labels"] = observed["labels"] * data.labels
    largest = mc.weight_max(declare(SCALES[0]), observed)
    for scale in (0.1, 0.3):
        model = declare(scale)
        for factor in (1.0001, 0.99):
            weighted = attrs.evolve(model, terms=[mc.NuclearNorm(factor * largest)])
            assert (mc.fit(weighted, observed).rank == 0) == (factor > 1.0)


def test_the_choice_is_the_lowest_score(capsys):
    data = table()
    observed = {
        "features": np.where(hide(data.features, 0.3), np.nan, data.features),
        "labels": np.where(hide(data.labels, 0.3), np.nan, data.labels),
    }
    chosen = choose(observed, Namespace(weight=None, seed=0))
    assert chosen.means[chosen.best] == np.nanmin(chosen.means) < 0.7
    assert f"chosen: label scale {SCALES[chosen.best[0]]:g}, nuclear" in capsys.readouterr().out
    one = choose(observed, Namespace(weight=0.01, seed=0))
    assert one.weights.tolist() == [0.01]


def test_the_baseline_on_a_label_of_one_class_and_on_one_without_any():
    data = table()
    labels = data.labels.copy()
    labels[:, 0], labels[:, 1] = 1.0, np.nan
    features = np.where(hide(data.features, 0.3), np.nan, data.features)
    found = regressions(features, labels)
    assert (found[:, 0] == 1.0).all()
    assert (found[:, 1] == 0.0).all()
    assert 0.0 < found[:, 2].min() < found[:, 2].max() < 1.0
    assert np.mean((found[:, 2] > 0.5) != labels[:, 2]) < 0.3


def test_the_verdict_tells_wins_losses_and_ties():
    assert (change(0.2, 0.1), change(0.5, 1.0)) == ("100% higher", "50% lower")
    assert (change(0.1, 0.1), change(0.1, 0.0)) == ("the same", "higher than its 0")


@pytest.mark.parametrize("ending", ["png", "pdf", "svg"])
def test_a_picture_of_each_kind(tmp_path, ending):
    pixels = digits().features[:2]
    path = tmp_path / f"two.{ending}"
    draw_pixels(
        path,
        truth=pixels,
        hidden=pixels > 0.5,
        answers={"zero": np.zeros_like(pixels)},
        titles=["0", "1"],
        heading="two",
    )
    assert path.stat().st_size > 1000


def test_a_picture_of_other_shapes_is_refused(tmp_path):
    pixels = digits().features[:2]
    with pytest.raises(mc.DataError, match=r"hidden has the shape \(1, 64\); \(2, 64\) is needed"):
        draw_pixels(
            tmp_path / "two.png",
            truth=pixels,
            hidden=pixels[:1] > 0.5,
            answers={},
            titles=["0", "1"],
            heading="two",
        )


@needs_data
def test_the_demo_on_emotions(place, capsys, monkeypatch):
    monkeypatch.setenv("MCFRAME_DATA", DATA)
    weight = ["--weight", "0.0005", "--tol", "1e-4"]
    assert main(["demo", "--data", "emotions.npz", *weight]) == 0
    out = capsys.readouterr().out
    assert "emotions: 593 items, 72 features" in out
    assert "Fit: certified" in out
