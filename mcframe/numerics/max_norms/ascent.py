"""Multipliers of the rows of factors, and better ones by ascent in the factors."""

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Matrix
from mcframe.numerics.machine.clock import check_time
from mcframe.numerics.max_norms.max_norm import squared_row_norms

__all__ = ["Ascent", "ascend", "max_norm_multipliers"]

# A row of factors shorter than the longest by the root of this counts as 0.
SHORT_ROW = 1e-20
# Steps of ascent; the gain of one that ends it, as a share of what all have gained, which is the
# gap that a bound from there would have, at most the first where that may do, and the second where
# it is too large anyway; and as a share of the whole.
STEPS, SETTLED, HOPELESS, ASCENDED = 300, 1e-4, 1e-2, 1e-13


def max_norm_multipliers(gradient: Matrix, stacked: Array) -> Array:
    """d_i = max(0, -(G V . U)_i / ||u_i||^2) for the rows of U, alike for those of V.

    What stationarity, (D + [[0, G], [G', 0]]) W = 0, asks of the diagonal D row by row. A row
    of zeros leaves it open: 0.
    """
    n_rows = gradient.shape[0]
    left, right = stacked[:n_rows], stacked[n_rows:]
    pulls = np.vstack([gradient @ right, gradient.T @ left])
    norms = squared_row_norms(stacked)
    long = norms > SHORT_ROW * np.max(norms, initial=0.0)
    products = -np.einsum("ij,ij->i", pulls, stacked)
    return np.maximum(np.where(long, products, 0.0) / np.where(long, norms, 1.0), 0.0)


@attrs.frozen(eq=False)
class Ascent:
    """The end of an ascent of -<G, U V'> over factors with rows of norm 1 at most.

    Attributes
    ----------
    multipliers : array
        D of the last factors, one number for each row of G, then for each column.
    begun, reached : float
        -<G, U V'> at the factors given, scaled to rows of norm 1 at most, and at the last ones.
        Both are lower bounds on the dual max norm of G; a dual point with the gradient G has at
        the factors given a gap of the norm less ``begun``, in units of their longest row squared.
    longest : float
        The squared norm of the longest row of the factors given.
    """

    multipliers: Array
    begun: float
    reached: float
    longest: float


def ascend(gradient: Matrix, stacked: Array, room: float = 0.0) -> Ascent:
    """Ascent from factors W to those that nearly maximise -<G, U V'> over rows of norm 1.

    The rows of U that are best for V are those of -G V at length 1, and their lengths before
    are the multipliers (the mixing method of Wang, Chang and Kolter, arXiv:1706.00476, by
    blocks). So all of U and all of V take turns, V extrapolated as by Nesterov, from factors
    that maximise nearly. Any D gives a bound; that of a maximiser the best. Costs two products of
    G with W a step.

    It ends where a step gains little beside what all have gained, g, which is the gap to be
    bounded. Factors that are short of the maximum by d cost the bound about sqrt(d), so that a
    step below g^2 keeps that below g. Once g is more than a gap of ``room``, if that is positive,
    a step of 1e-2 g will do.
    """
    n_rows = gradient.shape[0]
    longest = float(np.max(squared_row_norms(stacked), initial=0.0)) or 1.0
    begun = -float(np.vdot(gradient @ stacked[n_rows:], stacked[:n_rows])) / longest
    right = before = with_unit_rows(stacked[n_rows:])[0]
    best, momentum = 0.0, 1.0
    for _ in range(STEPS):
        check_time()
        faster = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        left, _ = with_unit_rows(
            -(gradient @ (right + (momentum - 1.0) / faster * (right - before)))
        )
        before = right
        right, lengths = with_unit_rows(-(gradient.T @ left))
        total = float(np.sum(lengths))
        momentum = faster if total > best else 1.0
        gained = total - begun
        hopeless = 0.0 < room < longest * gained
        share = HOPELESS if hopeless else min(SETTLED, gained / (total or 1.0))
        settled = abs(total - best) <= max(ASCENDED * total, share * gained)
        best = total
        if settled:
            break
    return Ascent(
        np.concatenate([with_unit_rows(gradient @ right)[1], lengths]), begun, best, longest
    )


def with_unit_rows(matrix: Array) -> tuple[Array, Array]:
    """The rows at length 1, those of zeros as they are, and their lengths."""
    lengths = np.sqrt(squared_row_norms(matrix))
    return matrix / np.where(lengths > 0.0, lengths, 1.0)[:, None], lengths
