"""A model verified and certified.

Question: is the answer the optimum, and what does that say?

Data: 20 men in a fitness club, three exercises (counts) and three body measures; scikit-learn's
bundled Linnerud table (Tenenhaus, 1998). A fifth of it is hidden.

Model: counts and measures, each with its own likelihood, under one nuclear norm. The same optimum
is sought in three ways: by the fast solver with its certificate, by CVXPY, and by a general
optimiser of SciPy on a few factors, which has no certificate and says that it succeeded.
"""

import numpy as np
from common import OURS, PLAIN, axes, save
from scipy.optimize import minimize
from sklearn.datasets import load_linnerud

import mcframe as mc
from mcframe.selection import RelativeDeviance

linnerud = load_linnerud()
counts, body = linnerud.data, linnerud.target
body = (body - body.mean(axis=0)) / body.std(axis=0)
rng = np.random.default_rng(0)
counts, body = (np.where(rng.random(own.shape) < 0.2, np.nan, own) for own in (counts, body))
data = {"counts": counts, "body": body}
COUNT_WEIGHT, WEIGHT = 0.1, 1.0
blocks = [
    mc.Block("counts", mc.Poisson(), weight=COUNT_WEIGHT, bias=True),
    mc.Block("body", mc.Gaussian()),
]
model = mc.Model(blocks, [mc.NuclearNorm(WEIGHT)])
print(model)

fit = mc.fit(model, data, tol=1e-9)
check = mc.verify(model, data)
print(check)

# The plain way: ||Z||_* is the minimum of (||U||^2 + ||V||^2) / 2 over Z = U V', so any optimiser
# of smooth functions will do, with as many factors as one thinks fit.
n, d = len(counts), counts.shape[1] + body.shape[1]


def factor_objective(theta, k):
    """The objective of U (n x k), V (d x k) and the biases b of the counts."""
    u, v, b = np.split(theta, [n * k, (n + d) * k])
    z = u.reshape(n, k) @ v.reshape(d, k).T
    rate, residual = z[:, :3] + b, z[:, 3:] - body
    losses = COUNT_WEIGHT * np.nansum(np.exp(rate) - counts * rate) + np.nansum(residual**2) / 2
    return losses + WEIGHT * (u @ u + v @ v) / 2


above = {}
for k in (1, 2, 3):
    start = np.concatenate([rng.standard_normal((n + d) * k), np.log(np.nanmean(counts, axis=0))])
    done = minimize(factor_objective, start, args=(k,), method="L-BFGS-B")
    above[k] = (done.fun - fit.bound) / abs(fit.bound)
    print(f"SciPy, {k} factors: success {done.success}, relative gap to the bound {above[k]:.1e}")

# What a certificate does not say: that the weight suits the data. Every fit of this path is at its
# optimum, and some of them predict held-out entries worse than the mean of the column does.
chosen = mc.cross_validate(
    model,
    data,
    criterion=RelativeDeviance(),
    weights=mc.selection.Grid(count=10, ratio=0.003, patience=None),
)
print(chosen)

left, right = axes(panels=2, xlabel="iteration", ylabel="distance from the lower bound")
history = fit.history
left.semilogy(history.iteration, history.objective - fit.bound, "o-", color=OURS, markersize=3)
left.set_title("one fit: objective minus bound", fontsize=9)
(weights,), (means,) = chosen.grids, chosen.means
right.plot(weights, means, "o-", color=OURS, markersize=3)
right.axhline(1.0, color=PLAIN, linestyle="--", label="mean of the column")
right.set(xscale="log", xlabel="weight of the nuclear norm", ylabel="held-out deviance")
right.set_title("all certified, not all good", fontsize=9)
right.legend(frameon=False, fontsize=8)
save(left, "verified")
# No answer of any program may lie below the bound, and two factors are too few here: "success"
# is a thousand times further off than the certified fit.
assert check.agrees
assert min(above.values()) > 0.0
assert above[2] > 1000.0 * fit.gap
