"""Pictures: each one draws every kind of answer that it claims to take, whatever the names are."""

import pathlib
import re
import sys
import warnings
from itertools import pairwise

import matplotlib as mpl

mpl.use("Agg")

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib import pyplot as plt
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cbook import is_math_text
from matplotlib.figure import Figure

import mcframe as mc
from mcframe import plots
from mcframe.plots.drawing import SIZE_OF_MAP, axis_words
from mcframe.plots.predictions import draw_shares
from mcframe.selection import Held, LabelError

from .test_docs import ROOT, examples_of

# Names with what matplotlib, HTML or LaTeX take for markup.
NASTY = ["$x$", "a_b^2 $", r"\frac{1}{2}", "<script>alert(1)</script>", "two\nlines", "_hidden"]
NASTY += ["100 % & #1", "n" * 200]
NUMBERS, LABELS = "$n$ <b>\n", r"_la\bels {"


def tables(n=40):
    """Numbers and labels of rank 2 with holes, and what was hidden, as DataFrames."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(n, 2)) @ rng.normal(size=(2, 2 * len(NASTY)))
    x, y = z[:, : len(NASTY)] + 0.3 * rng.normal(size=(n, len(NASTY))), z[:, len(NASTY) :]
    y = (y + rng.logistic(size=y.shape) > 0.0).astype(float)
    hidden = rng.random(x.shape) < 0.25
    frames = [pd.DataFrame(each, columns=NASTY) for each in (x, y)]
    seen = [frame.mask(hidden) for frame in frames]
    return dict(zip((NUMBERS, LABELS), seen, strict=True)), [f.where(hidden) for f in frames]


@pytest.fixture(scope="module")
def answers():
    """One answer of each kind, by the name of its class."""
    data, _ = tables()
    blocks = [mc.Block(NUMBERS, mc.Gaussian(), bias=True), mc.Block(LABELS, mc.Bernoulli())]
    model = mc.Model(blocks, [mc.NuclearNorm(2.0)])
    labels = {"y": data[LABELS].to_numpy()}
    mixtures = [
        mc.Model([mc.Block("y", mixture)], [mc.NuclearNorm(1.0)])
        for mixture in (
            mc.RiskMixture(pn=1.0, likelihood=mc.Gaussian()),
            mc.RiskMixture(pu=1.0, missing_rate=0.3, likelihood=mc.Gaussian()),
            mc.RiskMixture.punu(0.5, missing_rate=0.3, likelihood=mc.Gaussian()),
        )
    ]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the lowest mean score is at", UserWarning)
        chosen = mc.cross_validate(
            mixtures,
            labels,
            criterion=LabelError("y"),
            weights=mc.selection.Grid(count=4, ratio=0.2),
            cv=2,
        )
    learned = mc.Model(blocks, [mc.NuclearNorm()])
    posterior = mc.posterior(learned, data, factors=4, max_iter=20)
    days = pd.Series(pd.date_range("2024-01-01", periods=40)).where(np.arange(40) % 7 > 0)
    frame = data[NUMBERS].assign(size=["S", "M", "L", None] * 10, day=days)
    completed = mc.complete(frame, types={"day": "date"})
    return {
        "Fit": mc.fit(model, data),
        "Posterior": posterior,
        "Path": mc.path(model, data, weights=mc.selection.Grid(count=4), tol=1e-3),
        "CrossValidation": chosen,
        "Completion": completed,
        "Declared": completed.declared,
        "TippingPoint": mc.tipping_point(
            completed, lambda table: (table["a_b^2 $"].mean(), 0.1), "a_b^2 $", m=2
        ),
        "ConformalPredictions": posterior.conformalize(0.8),
        "PosteriorCalibration": mc.laws.check_posterior(
            mc.Model([mc.Block("x", mc.Gaussian(variance=0.5))], [mc.GaussianRows(np.eye(3))]),
            {"x": (8, 3)},
            n_tables=10,
        ),
        "Factors": posterior.factors(),
        "DataFrame": pl.from_pandas(data[NUMBERS]),
        "Table": pl.from_pandas(data[NUMBERS]).to_arrow(),
        "ndarray": data[NUMBERS].to_numpy(),
        "dict": {(1.0, 0.0, 0.0): 0.5, (0.0, 1.0, 0.0): 0.25, (0.5, 0.25, 0.25): 0.125},
    }


def small_axes():
    figure = Figure(figsize=(4.0, 3.0), dpi=60, layout="constrained")
    FigureCanvasAgg(figure)  # which draws; the canvas of a bare figure does not
    return figure.subplots()


def drawn(ax):
    """Draw the figure; what matplotlib cannot draw raises, and a warning is an error."""
    ax.figure.canvas.draw()
    return ax


def texts(ax):
    """All texts of a picture but numbers along axes."""
    found = [text.get_text() for text in ax.figure.findobj(mpl.text.Text)]
    return [text for text in found if "mathdefault" not in text]


def colliding(ax):
    """Pairs of texts of a picture that cover each other: of axes, names, title and key."""
    renderer, found = ax.figure.canvas.get_renderer(), []
    key = ax.get_legend()
    shown = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
    shown += [*([] if key is None else key.get_texts())]
    for axis in (ax.xaxis, ax.yaxis):
        low, high = sorted(axis.get_view_interval())
        ticks = axis.get_major_ticks()
        shown += [tick.label1 for tick in ticks if low <= tick.get_loc() <= high]
    boxes = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in shown
        if text.get_visible() and text.get_text().strip()
    ]
    for k, (one, box) in enumerate(boxes):
        for other, its in boxes[k + 1 :]:
            across = min(box.x1, its.x1) - max(box.x0, its.x0)
            up = min(box.y1, its.y1) - max(box.y0, its.y0)
            if across > 1.0 and up > 1.0:
                found.append((one, other, round(across), round(up)))
    return found


CLAIMS = [(name, kind) for name, (_, kinds) in plots.PICTURES.items() for kind in kinds]
NEEDS_BLOCK = {"predictions": NUMBERS, "calibration": LABELS, "coverage": NUMBERS}


@pytest.mark.parametrize(("name", "kind"), CLAIMS)
def test_a_picture_draws_what_it_claims_to_take(answers, name, kind):
    block = [NEEDS_BLOCK[name]] if name in NEEDS_BLOCK else []
    given = small_axes()
    ax = drawn(getattr(plots, name)(answers[kind], *block, ax=given))
    assert ax is given
    large = Figure(figsize=SIZE_OF_MAP, layout="constrained")
    FigureCanvasAgg(large)
    assert colliding(drawn(getattr(plots, name)(answers[kind], *block, ax=large.subplots()))) == []
    assert ax.has_data()
    for beside in large.axes[1:]:  # bars of colours, whose labels are not cut off
        box = beside.yaxis.label.get_window_extent()
        assert large.bbox.y0 <= box.y0 <= box.y1 <= large.bbox.y1
    if name != "ternary":
        assert ax.get_xlabel() or name in ("missingness", "filled")
        assert ax.get_ylabel()
    assert not any(map(is_math_text, texts(ax)))


@pytest.mark.parametrize("kind", ["Fit", "Posterior", "Path", "CrossValidation", "Completion"])
def test_answers_have_their_pictures_as_methods(answers, kind):
    answer = answers[kind]
    assert set(dir(answer.plot)) == {name for name, other in CLAIMS if other == kind}
    for name in dir(answer.plot):
        method = getattr(answer.plot, name)
        assert method.__doc__ == getattr(plots, name).__doc__
    with pytest.raises(AttributeError, match=f"a {kind} has no picture 'nothing'; it has "):
        _ = answer.plot.nothing
    assert kind in repr(answer.plot)


def test_every_picture_of_the_package_is_registered():
    assert set(plots.__all__) == {*plots.PICTURES, "PICTURES", "Pictures"}


def test_without_axes_a_figure_of_pyplot_is_made(answers):
    before = plt.get_fignums()
    ax = answers["Fit"].plot.gap()
    assert len(plt.get_fignums()) == len(before) + 1
    assert plt.gcf() is ax.figure
    assert ax.get_yscale() == "log"


@pytest.mark.parametrize("name", sorted(plots.PICTURES))
def test_another_object_and_other_axes_are_refused(answers, name):
    picture, kinds = plots.PICTURES[name]
    with pytest.raises(mc.ModelError, match=f"{name}: an object of the class int was given"):
        picture(3)
    with pytest.raises(mc.ModelError, match=f"{name}: ax is a str; Axes of matplotlib"):
        picture(answers[kinds[0]], ax="here")


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match=r'get it with pip install "mcframe\[plot\]"'):
        plots.ternary({(1, 0, 0): 1.0})


def test_what_a_picture_needs_is_asked_for(answers):
    fit, posterior, completed = (answers[k] for k in ("Fit", "Posterior", "Completion"))
    with pytest.raises(mc.ModelError, match="predictions: no block was given; the blocks are"):
        fit.plot.predictions()
    with pytest.raises(mc.ModelError, match=r"has labels or classes; take plots.calibration"):
        fit.plot.predictions(LABELS)
    with pytest.raises(mc.ModelError, match=r"no probabilities of labels.*take plots.predictions"):
        fit.plot.calibration(NUMBERS)
    with pytest.raises(mc.ModelError, match="there is no block 'z'"):
        posterior.plot.coverage("z")
    with pytest.raises(mc.ModelError, match=r"axes=\(0, 9\) was given; two different axes"):
        fit.plot.biplot((0, 9))
    with pytest.raises(mc.ModelError, match=r"axes=\(1, 1\) was given"):
        fit.plot.biplot((1, 1))
    with pytest.raises(mc.ModelError, match="bins=0 was given"):
        fit.plot.calibration(LABELS, bins=0)
    with pytest.raises(mc.ModelError, match="there is no column 'z'"):
        completed.plot.filled("z")
    with pytest.raises(mc.ModelError, match="column 'size' is a category; a column of numbers"):
        completed.plot.filled("size")
    with pytest.raises(mc.ModelError, match="a compact fit has left its data behind"):
        fit.compact().plot.missingness()
    with pytest.raises(mc.DataError, match=r"shape \(3,\)"):
        plots.missingness(np.zeros(3))
    with pytest.raises(mc.DataError, match="a table of 0 x 3 has no cell"):
        plots.missingness(np.zeros((0, 3)))
    with pytest.raises(mc.ModelError, match=r"shares of at least 0 with sum 1; the keys are"):
        plots.ternary({(1, 1, 1): 0.5})
    with pytest.raises(mc.ModelError, match="not one of the numbers is finite"):
        plots.ternary({(1, 0, 0): np.nan})


def test_pictures_that_an_answer_cannot_have():
    data = {"x": np.outer(np.arange(1.0, 9.0), [1.0, 2.0, 3.0])}
    block = mc.Block("x", mc.Gaussian(variance=0.1))
    rows = mc.posterior(mc.Model([block], [mc.GaussianRows()]), data)
    with pytest.raises(mc.ModelError, match="have no factors; declare NuclearNorm"):
        rows.plot.precisions()
    drawn(rows.plot.evidence(ax=small_axes()))  # one step, one point
    drawn(rows.plot.biplot(ax=small_axes()))
    nothing = mc.fit(mc.Model([block], [mc.NuclearNorm(1e6)]), data)
    with pytest.raises(mc.ModelError, match="Z is 0"):
        nothing.plot.singular_values()
    with pytest.raises(mc.ModelError, match="two different axes are needed, and Z has 0"):
        nothing.plot.biplot()


def test_predictions_are_compared_with_what_was_hidden(answers):
    """By labels of rows and columns in any order, by position, and as entries."""
    fit, (truth, _) = answers["Fit"], tables()[1]
    cells = np.nonzero(~np.isnan(truth.to_numpy()))
    entries = *cells, truth.to_numpy()[cells]
    mixed = truth.sample(frac=1.0, random_state=0)[NASTY[::-1]]
    titles = {
        plots.predictions(fit, NUMBERS, given, ax=small_axes()).get_title()
        for given in (truth, mixed, truth.to_numpy(), entries, Held(*entries))
    }
    assert len(titles) == 1
    assert f"{cells[0].size} entries of truth" in titles.pop()
    with pytest.raises(mc.DataError, match="truth has 3 rows, and the answer has 40"):
        plots.predictions(fit, NUMBERS, truth.to_numpy()[:3])
    with pytest.raises(mc.DataError, match="1 rows, 2 columns and 1 values"):
        plots.predictions(fit, NUMBERS, ([0], [0, 1], [1.0]))


def test_shares_have_bars_around_them():
    ax = small_axes()
    draw_shares(ax, np.array([0.2, 0.9]), np.array([20, 45]), np.array([100, 50]))
    np.testing.assert_allclose(ax.lines[-1].get_ydata(), [0.2, 0.9])
    bars = np.array([segment[:, 1] for segment in ax.collections[0].get_segments()])
    assert (bars[:, 0] < [0.2, 0.9]).all()
    assert (bars[:, 1] > [0.2, 0.9]).all()


@pytest.mark.parametrize("likelihood", [mc.Ordinal(3), mc.Multinomial(3)], ids=repr)
def test_levels_and_classes_are_calibrated_for_fits_and_posteriors(likelihood):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, (30, 5)) + float(isinstance(likelihood, mc.Ordinal))
    model = mc.Model([mc.Block("y", likelihood)], [mc.NuclearNorm(4.0)])
    for answer in (mc.fit(model, {"y": y}), mc.posterior(model, {"y": y}, max_iter=5, tol=1e-2)):
        ax = drawn(answer.plot.calibration(ax=small_axes()))
        shares = ax.lines[-1].get_ydata()
        assert np.mean(shares) == pytest.approx(1 / 3)  # each entry has one of three values
    drawn(answer.plot.coverage(ax=small_axes()))


def test_labels_without_probabilities_have_neither_picture():
    """Neither message leads to the other picture. A mixture of logistic losses has one."""
    labels = {"y": [[1.0, 0.0, np.nan], [0.0, 1.0, 1.0]]}
    terms = [mc.NuclearNorm(0.5), mc.NuclearBall(2.0)]
    squares, logistic = (
        mc.RiskMixture.punu(0.5, missing_rate=0.2, likelihood=loss)
        for loss in (mc.Gaussian(), mc.Bernoulli())
    )
    for likelihood in (mc.Hinge(), squares):
        fit = mc.fit(mc.Model([mc.Block("y", likelihood)], terms), labels, tol=1e-2)
        with pytest.raises(mc.ModelError, match=r"has no probabilities of .* classes$"):
            fit.plot.calibration()
        with pytest.raises(mc.ModelError, match=r"has labels or classes$"):
            fit.plot.predictions()
    fit = mc.fit(mc.Model([mc.Block("y", logistic)], terms), labels, tol=1e-2)
    drawn(fit.plot.calibration(ax=small_axes()))


@pytest.mark.parametrize("n_columns", [3, 30, 400])
def test_names_of_columns_do_not_overlap(n_columns):
    frame = pd.DataFrame(
        np.ones((4, n_columns)), columns=[f"column {k}" for k in range(n_columns)]
    )
    ax = drawn(plots.missingness(frame, ax=small_axes()))
    boxes = [label.get_window_extent() for label in ax.get_xticklabels()]
    assert len(boxes) >= 3
    for one, other in pairwise(boxes):
        assert one.x1 <= other.x0 + 1.0


def test_large_tables_share_pixels():
    missing = np.zeros((5_000, 1_000))
    missing[:2_500] = np.nan
    ax = plots.missingness(missing, ax=small_axes())
    pixels = ax.images[0].get_array()
    assert pixels.shape == (400, 400)
    assert pixels.mean() == pytest.approx(0.5, abs=0.01)
    assert ax.get_title() == "50% of 5000 x 1000 cells are missing"


def test_the_colours_of_missingness_have_a_key():
    def key_of(data):
        ax = drawn(plots.missingness(data, ax=small_axes()))
        handles, image = ax.get_legend().legend_handles, ax.images[0]
        for handle, share in zip(handles, np.linspace(0.0, 1.0, len(handles)), strict=True):
            assert handle.get_facecolor() == image.to_rgba(share)
        return [text.get_text() for text in ax.get_legend().get_texts()]

    assert key_of(np.array([[1.0, np.nan], [2.0, 3.0]])) == ["observed", "missing"]
    assert key_of(np.ones((401, 2))) == ["all observed", "half missing", "all missing"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("NuclearNorm", "nuclear norm"),
        ("RelativeDeviance(block=None)", "relative deviance"),
        ("LabelError(block='moods')", "label error of moods"),
        ("AUCError", "AUC error"),
        ("wrong labels", "wrong labels"),
        ("worst", "worst"),
        ("1 - AUC", "1 - AUC"),
    ],
)
def test_classes_are_words_on_axes(name, words):
    assert axis_words(name) == words


def test_dates_are_drawn_as_filled(answers):
    ax = drawn(answers["Completion"].plot.filled("day", ax=small_axes()))
    assert sum("2024" in text for text in texts(ax)) > 1


def test_cells_filled_with_constants_are_counted():
    x, y = np.arange(21.0), np.arange(21.0) ** 2
    x[0], c = np.nan, [1.0] * 19 + [np.nan] * 2
    frame = pd.DataFrame({"x": x, "y": y, "c": c})
    with pytest.warns(UserWarning, match="single observed value"):
        completed = mc.complete(frame)
    title = completed.plot.filled(ax=small_axes()).get_title()
    assert title == "1 filled cell of 21 x 3, without 2 of constants"


def test_the_page_has_the_pictures_that_its_code_saves():
    page = (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8")
    saved = re.findall(r'savefig\("(.*?)"\)', "".join(each.code for each in examples_of(page)))
    assert re.findall(r"\]\((pictures-.*?\.png)\)", page) == saved
    assert {path.name for path in pathlib.Path(ROOT / "docs").glob("pictures-*.png")} == set(saved)
