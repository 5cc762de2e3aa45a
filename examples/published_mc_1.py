"""MC-1 solved exactly, beside the algorithm that was published for it, from the same start.

Algorithm 2 of Goldberg et al. (2010) shrinks the singular values of Z and then overwrites its
last column by ones. That is not the prox of both together, and its fixed point is not the
optimum of their Eq. 3. This prints by how much.
"""

import warnings

import numpy as np

import mcframe as mc
from mcframe.papers import fixed_point_mc_1, mc_1


def instance(n_items=24, n_features=9, n_labels=4, rank=2, observed=0.6, seed=0):
    """Features and labels of a low-rank matrix, 60 % of them observed."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n_items, rank))
    x = scores @ rng.standard_normal((rank, n_features)) + 0.1 * rng.standard_normal(
        (n_items, n_features)
    )
    logits = scores @ rng.standard_normal((rank, n_labels)) + rng.standard_normal(n_labels)
    y = (rng.random((n_items, n_labels)) < 1 / (1 + np.exp(-logits))).astype(float)
    x[rng.random(x.shape) > observed] = np.nan
    y[rng.random(y.shape) > observed] = np.nan
    return {"features": x, "labels": y}


def main():
    """One table, a row a weight."""
    data = instance()
    print("excess: (objective - lower bound of the exact fit) / lower bound")
    print(
        f"{'mu':>6} {'exact':>14} {'gap':>8} {'Algorithm 2':>14} {'excess':>8} {'own gap':>8}"
        f" {'distance of Z':>14}"
    )
    for mu in (0.1, 0.05, 0.02, 0.01):
        exact = mc.fit(mc_1(mu), data, backend="fpc", tol=1e-9)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", mc.NotCertifiedWarning)
            # Their rule, and a much stricter one: more iterations do not help.
            published = fixed_point_mc_1(data, mu, change=1e-12)
        excess = (published.objective - exact.bound) / exact.bound
        z, w = exact.latent.dense(), published.latent.dense()
        away = np.linalg.norm(z - w) / np.linalg.norm(z)
        print(
            f"{mu:6g} {exact.objective:14.9f} {exact.gap:8.1e} {published.objective:14.9f}"
            f" {excess:8.2%} {published.gap:8.2%} {away:14.1%}"
        )


if __name__ == "__main__":
    main()
