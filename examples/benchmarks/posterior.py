"""The posterior of ratings: held-out error, log density, coverage of intervals, CPU seconds.

    MCFRAME_DATA=... python examples/benchmarks/posterior.py [factors ...]

MovieLens 100k, a tenth of the ratings held out (``numpy.random.default_rng(0)``), predictions
clipped to 1 to 5. Users and films without a rating among the others are part of the table.
"""

import os
import sys
import time
import warnings

import numpy as np
import scipy.sparse as sp

import mcframe as mc

LEVELS = (0.5, 0.8, 0.9, 0.95)


def ratings() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Users and films from 0, and ratings."""
    kept = np.load(os.path.join(os.environ["MCFRAME_DATA"], "movielens100k.npz"))
    users, films = (np.unique(kept[name], return_inverse=True)[1] for name in ("user", "item"))
    return users, films, kept["rating"].astype(float)


def split_ratings() -> tuple[np.ndarray, ...]:
    """Users, films and ratings, the places of the tenth that is held out, and of the others."""
    users, films, stars = ratings()
    order, tenth = np.random.default_rng(0).permutation(stars.size), stars.size // 10
    return users, films, stars, order[:tenth], order[tenth:]


def main() -> None:
    """Print a line for each number of factors and each tolerance."""
    users, films, values, test, train = split_ratings()
    shape = users.max() + 1, films.max() + 1
    table = sp.csr_array((values[train], (users[train], films[train])), shape=shape)
    block = mc.Block("stars", mc.Gaussian(variance=None), bias=True, row_effects=True)
    model = mc.Model([block], [mc.NuclearNorm()])
    warnings.simplefilter("ignore", mc.UnobservedWarning)
    mc.posterior(model, {"stars": table}, factors=2, max_iter=2)  # compiles the loops
    print("factors tol    sweeps CPU s  RMSE   log density  coverage at", *LEVELS)
    for factors in [int(each) for each in sys.argv[1:]] or [4, 8, 16, 24, 32]:
        for tol in (1e-3, 1e-4):
            began = time.process_time()
            found = mc.posterior(model, {"stars": table}, factors=factors, tol=tol)
            seconds = time.process_time() - began
            where = "stars", users[test], films[test]
            mean = np.clip(found.predict(*where), 1.0, 5.0)
            error = np.sqrt(np.mean(np.square(mean - values[test])))
            density = np.mean(found.log_predictive_density(*where, values[test]))
            covered = []
            for level in LEVELS:
                lower, upper = found.interval("stars", level, users[test], films[test])
                covered.append(np.mean((lower <= values[test]) & (values[test] <= upper)))
            print(
                f"{factors:<7d} {tol:<6g} {len(found.history):<6d} {seconds:<6.1f} {error:.4f}"
                f" {density:.4f}      " + " ".join(f"{share:.3f}" for share in covered),
                flush=True,
            )


if __name__ == "__main__":
    main()
