"""Max norm, COCO and TMCC at the sizes of their papers: certified gap and time.

    python examples/benchmarks/vocabulary.py [max-norm] [movielens] [coco] [tmcc]

Each optimum stands beside the algorithm its paper published, run in the same process on the
same data: ``excess`` is how far that algorithm's answer lies above the certified optimum at
most. Times are wall clock of one run each, certificates included. ``movielens`` reads
``movielens100k.npz`` from the folder that the environment variable MCFRAME_DATA names.
"""

import os
import pathlib
import sys
import time

import numpy as np

import mcframe as mc
from mcframe.papers import coco, coco_subgradient, projected_factors, tri


def excess(published: mc.Fit, certified: mc.Fit) -> float:
    """(objective - bound of the optimum) / |bound|."""
    return (published.objective - certified.bound) / abs(certified.bound)


def row(*cells: object) -> None:
    """One row of a Markdown table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def compared(name: str, model: mc.Model, labels: np.ndarray, tol: float) -> None:
    """A max-norm model beside the published projected gradient at three widths."""
    began = time.perf_counter()
    fit = mc.fit(model, {"labels": labels}, tol=tol, max_seconds=600)
    seconds = time.perf_counter() - began
    row(name, "factored, staircase", fit.latent.width, f"{fit.gap:.1e}", "", f"{seconds:.1f} s")
    scale = float(np.max(np.abs(fit.problem.scale("labels"))))
    for width in (5, 20):
        best = None
        for step in (3e-4, 1e-3, 3e-3):
            began = time.perf_counter()
            published = projected_factors(
                model, {"labels": labels}, width, step / scale, max_iter=300, max_seconds=120
            )
            taken = time.perf_counter() - began
            if best is None or published.objective < best[0].objective:
                best = published, step, taken
        assert best is not None
        published, step, taken = best
        row(
            name,
            f"projected gradient, step {step:g}",
            width,
            f"{published.gap:.1e}",
            f"{excess(published, fit):.1e}",
            f"{taken:.1f} s",
        )


def drawn(size: int) -> np.ndarray:
    """Labels of Hayashi et al., section 6.2: rank 10, QPF 1 / (1 + exp(-7 x)), 85 % missing."""
    rng = np.random.default_rng(0)
    latent = rng.uniform(-1, 1, (size, 10)) @ rng.uniform(-1, 1, (10, size))
    latent /= np.max(np.abs(latent))
    labels = (rng.random(latent.shape) < 1 / (1 + np.exp(-7 * latent))).astype(float)
    labels[rng.random(labels.shape) < 0.85] = np.nan
    return labels


def mixture(bound: float | None) -> mc.Model:
    """The TRI risk of the same section."""
    return tri(
        0.3,
        0.3,
        0.4,
        radius=np.sqrt(10.0),
        bound=bound,
        missing_rate=0.85,
        likelihood=mc.Bernoulli(scale=1 / 7),
    )


def max_norm(size: int) -> None:
    """Their mixture with and without a box."""
    for bound in (None, 1.0):
        box = "" if bound is None else f", entries within {bound:g}"
        compared(f"{size} x {size}{box}", mixture(bound), drawn(size), 1e-3)


def ratings() -> np.ndarray:
    """Ratings of 4 and 5 against the others, 90,000 of 100,000, as in their section 6.3."""
    file = pathlib.Path(os.environ["MCFRAME_DATA"]) / "movielens100k.npz"
    with np.load(file, allow_pickle=False) as data:
        users, items, stars = data["user"], data["item"], data["rating"]
    rows = np.unique(users, return_inverse=True)[1]
    columns = np.unique(items, return_inverse=True)[1]
    kept = np.random.default_rng(0).permutation(stars.size)[:90_000]
    labels = np.full((rows.max() + 1, columns.max() + 1), np.nan)
    labels[rows[kept], columns[kept]] = stars[kept] >= 4
    return labels


# Models and labels of two problems.
MAX_NORM = {
    "300 x 300": lambda: (mixture(None), drawn(300)),
    "MovieLens 100k": lambda: (tri(0.6, 0.2, 0.2, radius=2.0), ratings()),
}


def movielens() -> None:
    """A mixture of risks on the ratings."""
    compared("MovieLens 100k", *MAX_NORM["MovieLens 100k"](), 1e-3)


def coco_1(n_items: int = 1000, n_features: int = 500, n_labels: int = 100) -> None:
    """Xu et al., section 4.1: rank 10, 20 % observed."""
    rng = np.random.default_rng(0)
    latent = rng.uniform(-5, 5, (n_items, 10)) @ rng.uniform(-5, 5, (10, n_features + n_labels))
    features = latent[:, :n_features].copy()
    chance = 1 / (1 + np.exp(-latent[:, n_features:]))
    labels = (rng.random((n_items, n_labels)) < chance).astype(float)
    features[rng.random(features.shape) > 0.2] = np.nan
    labels[rng.random(labels.shape) > 0.2] = np.nan
    data = {"features": features, "labels": labels}
    began = time.perf_counter()
    fit = mc.fit(coco(), data, tol=1e-4, max_seconds=900)
    seconds = time.perf_counter() - began
    name = f"COCO-1 {n_items} x {n_features + n_labels}"
    row(name, "splitting", fit.rank, f"{fit.gap:.1e}", "", f"{seconds:.1f} s")
    began = time.perf_counter()
    published = coco_subgradient(data)
    seconds = time.perf_counter() - began
    row(
        name,
        "published subgradient, 300 steps",
        published.rank,
        f"{published.gap:.1e}",
        f"{excess(published, fit):.1e}",
        f"{seconds:.1f} s",
    )


def tmcc(n_items: int = 1500, n_columns: int = 500, share: float = 0.3) -> None:
    """Wang et al.: Gaussian features; Bernoulli, Poisson and Gaussian targets; known means."""
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((n_items, 5)) @ rng.standard_normal((5, n_columns))
    latent /= np.max(np.abs(latent))
    targets = [latent @ rng.standard_normal((n_columns, n_columns)) for _ in range(3)]
    targets = [target / np.max(np.abs(target)) for target in targets]
    shape = (n_items, n_columns)
    data = {
        "x": latent + 0.1 * rng.standard_normal(shape),
        "labels": (rng.random(shape) < 1 / (1 + np.exp(-targets[0]))).astype(float),
        "counts": rng.poisson(np.exp(targets[1])).astype(float),
        "reals": targets[2] + rng.standard_normal(shape),
    }
    for table in data.values():
        table[rng.random(shape) > share] = np.nan
    weight = 1.0 / (n_items * 4 * n_columns)
    words = {"labels": mc.Bernoulli(), "counts": mc.Poisson()}
    blocks = [mc.Block(name, words.get(name, mc.Gaussian()), weight=weight) for name in data]
    means = np.full((1, n_items), 1.0 / n_items)
    for calibration in (
        mc.Calibration("x", means, means @ latent, weight=weight * n_items),
        mc.Calibration("x", means, means @ latent),
    ):
        # tau_2 is half of what would make the answer 0: about the size of the noise.
        model = mc.Model(blocks, [mc.NuclearNorm(0.5 * largest_weight(blocks, data)), calibration])
        began = time.perf_counter()
        fit = mc.fit(model, data, tol=1e-4, max_seconds=900)
        seconds = time.perf_counter() - began
        kind = "penalty" if hasattr(calibration, "weight") else "exact"
        residual = f"residual {fit.residual('x'):.1e}"
        name = f"TMCC {n_items} x {4 * n_columns}, {kind}, {residual}"
        row(name, fit.backend, fit.rank, f"{fit.gap:.1e}", "", f"{seconds:.1f} s")


def largest_weight(blocks: list[mc.Block], data: dict[str, np.ndarray]) -> float:
    """The spectral norm of the gradient at Z = 0: from there upwards the answer is Z = 0."""
    gradients = []
    for block in blocks:
        y = data[block.name]
        known = ~np.isnan(y)
        gradient = np.zeros(y.shape)
        zero = np.zeros(int(known.sum()))
        gradient[known] = block.weight * block.likelihood.value_and_gradient(zero, y[known])[1]
        gradients.append(gradient)
    return float(np.linalg.norm(np.hstack(gradients), 2))


PROBLEMS = {
    "max-norm": lambda: (max_norm(100), max_norm(300)),
    "movielens": movielens,
    "coco": coco_1,
    "tmcc": tmcc,
}


def main() -> None:
    """The problems named on the command line, or all."""
    row("problem", "method", "rank or k", "gap", "excess at most", "time")
    row(*["---"] * 6)
    for name in sys.argv[1:] or PROBLEMS:
        PROBLEMS[name]()


if __name__ == "__main__":
    main()
