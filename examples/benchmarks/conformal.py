"""Conformal intervals in the settings of Gui, Barber and Ma (2023): coverage and average width.

    python examples/benchmarks/conformal.py [--settings ...] [--factors 2 8 20] [--missingness ...]
        [--variance 1.0] [--repetitions 20] [--size 500] [--level 0.9]

Prints one line for each setting, number of factors and way of finding the probabilities of being
missing: mean and standard error over repetitions of the share of missing entries that lie in the
interval, and the mean width; beside it those of the posterior's own intervals, which hold where
the model does. Without ``--variance`` a noise variance is learned for each column.

The settings are those of "Conformalized matrix completion" (NeurIPS 2023), as its published code
has them: a matrix of rank 8 with equal singular values and mean absolute value 5, seen with
noise. ``homogeneous`` sees each entry with probability 0.8, ``sparse`` with 0.2, ``heavy`` has
noise 0.2 t with 1.2 degrees of freedom, ``coherent`` factors from such a t distribution.
``logistic1`` and ``logistic5`` see entry (i, j) with probability 1 / (1 + exp(-u_i'v_j)) of one
or five numbers, with noise 1; ``adversarial`` is ``logistic1`` with noise 1 / (2 p), large where
entries are missing, ``unrelated`` with noise 1 / (2 q) of another such q.
"""

import argparse

import numpy as np

import mcframe as mc

RANK = 8
SETTINGS = (
    *("homogeneous", "sparse", "heavy", "coherent"),
    *("logistic1", "logistic5", "adversarial", "unrelated"),
)


def seen_with(name, rng, size):
    """The probability of each entry of being observed."""
    if name == "sparse":
        return np.full((size, size), 0.2)
    if name in ("homogeneous", "heavy", "coherent"):
        return np.full((size, size), 0.8)
    return logistic(rng, size, 5 if name == "logistic5" else 1)


def logistic(rng, size, width):
    """Probabilities by the products of a few numbers of rows and columns."""
    rows, columns = rng.uniform(0.0, 1.0, (size, width)), rng.uniform(-0.5, 0.5, (size, width))
    return 1.0 / (1.0 + np.exp(-rows @ columns.T))


def noise_of(name, probabilities, rng):
    """The noise of each entry."""
    shape = probabilities.shape
    if name == "heavy":
        return 0.2 * rng.standard_t(1.2, shape)
    spread = 1.0
    if name == "adversarial":
        spread = 0.5 / probabilities
    if name == "unrelated":
        spread = 0.5 / logistic(rng, shape[0], 1)
    return spread * rng.standard_normal(shape)


def instance(name, rng, size):
    """Observations of all entries, and the probability of each of being observed."""
    probabilities = seen_with(name, rng, size)

    def axes():
        drawn = rng.standard_normal((size, RANK))
        if name == "coherent":
            drawn = rng.standard_t(1.2, (size, RANK))
        return np.linalg.qr(drawn)[0]

    signal = axes() @ axes().T
    signal *= 5.0 / np.mean(np.abs(signal))
    return signal + noise_of(name, probabilities, rng), probabilities


def measured(interval, truth, hidden):
    """The share of hidden entries that is covered, and the mean width there."""
    lower, upper = (end[hidden] for end in interval)
    return np.mean((lower <= truth[hidden]) & (truth[hidden] <= upper)), np.mean(upper - lower)


def repetition(name, seed, factors, given):
    """Coverage and width of each way on one table, and of the posterior's own intervals."""
    rng = np.random.default_rng(seed)
    truth, probabilities = instance(name, rng, given.size)
    hidden = rng.random(truth.shape) >= probabilities
    model = mc.Model([mc.Block("x", mc.Gaussian(variance=given.variance))], [mc.NuclearNorm()])
    posterior = mc.posterior(model, {"x": np.where(hidden, np.nan, truth)}, factors=factors)
    found = {"posterior": measured(posterior.interval("x", given.level), truth, hidden)}
    for way in given.missingness:
        missingness = 1.0 - probabilities if way == "known" else way
        intervals = posterior.conformalize(given.level, missingness, random_state=seed)
        found[way] = measured(intervals.interval("x"), truth, hidden)
    return found


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=SETTINGS)
    parser.add_argument("--factors", nargs="+", type=int, default=[2, 8, 20])
    ways = ("uniform", "rank1", "bernoulli", "known")
    parser.add_argument("--missingness", nargs="+", choices=ways, default=ways)
    parser.add_argument("--variance", type=float)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--size", type=int, default=500)
    parser.add_argument("--level", type=float, default=0.9)
    given = parser.parse_args()
    print(f"{'setting':<12} {'factors':>7} {'missingness':<11} {'coverage':>16} {'width':>8}")
    for name in given.settings:
        for factors in given.factors:
            seeds = range(given.repetitions)
            runs = [repetition(name, seed, factors, given) for seed in seeds]
            for way in runs[0]:
                covered, width = np.array([run[way] for run in runs]).T
                error = np.std(covered, ddof=1) / np.sqrt(covered.size)
                told = f"{np.mean(covered):.4f} +- {error:.4f}"
                print(f"{name:<12} {factors:>7} {way:<11} {told:>16} {np.mean(width):>8.3f}")


if __name__ == "__main__":
    main()
