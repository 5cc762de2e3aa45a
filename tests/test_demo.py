"""The demo and its command line, on tables small enough for seconds."""

import os
import subprocess
import sys

import numpy as np
import pytest

import mcframe as mc
from mcframe.__main__ import main
from mcframe.datasets import MultiLabel, digits
from mcframe.demo.experiment import (
    Errors,
    Experiment,
    GridScores,
    best_baseline,
    declare,
    fit_baseline,
    largest_weight,
    prepare,
    search,
)
from mcframe.demo.report import grid, verdict
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


def experiment() -> Experiment:
    return prepare(
        table(),
        hidden_features=0.3,
        hidden_labels=0.5,
        standardise=True,
        rng=np.random.default_rng(0),
    )


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

    monkeypatch.setattr("mcframe.demo.report.fit", hurried)
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

    monkeypatch.setattr("mcframe.demo.report.fit", stopped)
    assert main(QUICK) == 1
    out = capsys.readouterr().out
    assert "Fit: interrupted" in out
    assert "against the baseline" in out


def test_ctrl_c_elsewhere_is_one_line(place, capsys, monkeypatch):
    def pressed(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("mcframe.demo.report.search", pressed)
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
    assert "python -m mcframe demo" in capsys.readouterr().out


def test_the_module_runs_as_a_command():
    command = [sys.executable, "-m", "mcframe", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == f"mcframe {mc.__version__}\n"


# Its parts


def test_hidden_entries_are_out_of_sight():
    made = experiment()
    for block, mask in (("features", made.hidden_features), ("labels", made.hidden_labels)):
        assert np.array_equal(np.isnan(made.observed[block]), mask)


def test_what_is_hidden_is_lost_to_validation():
    made = experiment()
    held_out = made.hide_more(0.1, np.random.default_rng(0))
    assert np.isnan(held_out.features[made.hidden_features]).all()
    assert np.isnan(held_out.labels[made.hidden_labels]).all()
    assert not (held_out.hidden_features & made.hidden_features).any()
    assert held_out.hidden_features.sum() == round(0.1 * (~made.hidden_features).sum())


def test_standardising_looks_at_observed_entries_only():
    data = table()
    made = experiment()
    observed = np.where(made.hidden_features, np.nan, data.features)
    expected = (data.features - np.nanmean(observed, axis=0)) / np.nanstd(observed, axis=0)
    assert np.allclose(made.features, expected, rtol=1e-12, atol=1e-12)


def test_a_constant_column_is_shifted_only():
    data = MultiLabel("m", np.column_stack([np.full(60, 2.0), np.arange(60.0)]), np.eye(60, 3))
    made = prepare(
        data,
        hidden_features=0.3,
        hidden_labels=0.3,
        standardise=True,
        rng=np.random.default_rng(0),
    )
    assert np.array_equal(made.features[:, 0], np.zeros(60))


def test_errors_by_hand():
    made = Experiment(
        features=np.array([[3.0, 4.0], [1.0, 1.0]]),
        labels=np.array([[1.0], [0.0]]),
        hidden_features=np.array([[True, True], [False, False]]),
        hidden_labels=np.array([[True], [True]]),
    )
    found = made.errors(np.array([[3.0, 3.0], [9.0, 9.0]]), np.array([[0.7], [0.6]]))
    assert found == Errors(labels=0.5, features=1 / 25)
    expected = -(np.log(0.7) + np.log(0.4)) / 2
    assert made.log_loss(np.array([[0.7], [0.6]])) == pytest.approx(expected, rel=1e-14)


def test_means_score_1_and_the_truth_scores_0():
    made = experiment()
    assert made.score(made.constant("features"), made.constant("labels")) == pytest.approx(1.0)
    assert made.score(made.features, made.labels) == 0.0


def test_at_the_largest_weight_and_not_below_it_nothing_is_left():
    made = experiment()
    largest = largest_weight(made)
    for scale in (0.1, 0.3):
        assert mc.fit(declare(scale, 1.0001 * largest), made.observed).rank == 0
        assert mc.fit(declare(scale, 0.99 * largest), made.observed).rank > 0


def test_the_search_takes_the_lowest_score():
    choice = search(experiment().hide_more(0.2, np.random.default_rng(0)))
    assert not choice.interrupted
    assert choice.scores[choice.best] == min(choice.scores.values())
    assert choice.scores[choice.best] < 0.7
    assert f"{choice.scores[choice.best]:.4f}*" in grid(choice)


def test_an_interrupted_search_keeps_what_it_has(monkeypatch):
    def stopped(model, data, **options):
        with pytest.warns(mc.NotCertifiedWarning):
            return mc.fit(model, data, **options, callback=lambda record: True)

    monkeypatch.setattr("mcframe.demo.experiment.fit", stopped)
    choice = search(experiment().hide_more(0.2, np.random.default_rng(0)))
    assert choice.interrupted
    assert len(choice.scores) == 1


def test_the_grid_leaves_out_what_was_not_tried():
    shown = grid(GridScores({(0.3, 0.2): 0.9, (0.3, 0.1): 0.8, (0.1, 0.2): 0.85})).splitlines()
    assert shown[1].split() == ["0.3", "0.9000", "0.8000*"]
    assert shown[2].split() == ["0.1", "0.8500"]


def test_the_baseline_on_a_label_of_one_class_and_on_one_without_any():
    data = table()
    labels = data.labels.copy()
    labels[:, 0], labels[:, 1] = 1.0, np.nan
    nothing = np.zeros(labels.shape, dtype=bool)
    made = Experiment(data.features, labels, np.zeros(data.features.shape, dtype=bool), nothing)
    found = fit_baseline(made, 1.0)
    assert (found.probabilities[:, 0] == 1.0).all()
    assert (found.probabilities[:, 1] == 0.0).all()
    assert 0.0 < found.probabilities[:, 2].min() < found.probabilities[:, 2].max() < 1.0
    assert found.unconverged == 0


def test_the_baseline_fills_hidden_features_by_means():
    made = experiment()
    strength = best_baseline(made.hide_more(0.2, np.random.default_rng(0)))
    found = fit_baseline(made, strength)
    assert made.errors(found.features, found.probabilities).features == pytest.approx(1.0)
    assert made.errors(found.features, found.probabilities).labels < 0.3


def test_the_verdict_tells_wins_losses_and_ties():
    said = verdict(Errors(0.2, 0.5), Errors(0.1, 1.0))
    assert said.endswith("label error is 100% higher, its imputation error 50% lower")
    assert "label error is the same" in verdict(Errors(0.1, 1.0), Errors(0.1, 1.0))
    assert "higher than its 0" in verdict(Errors(0.1, 1.0), Errors(0.0, 1.0))


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
