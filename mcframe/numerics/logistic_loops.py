"""Moves of rows of Gaussian factors whose losses are sums of logistic functions, compiled.

``move_rows`` is a half sweep of a sampler in one pass over the entries: of a few factors the
numbers of a row stay in registers and in the nearest cache.
"""

import numpy as np

from mcframe.numerics.gaussian_moves import factorise, solve_lower
from mcframe.numerics.kernels import FAST_MATH
from mcframe.runtime.machine import compiled

# Where tanh(x / 2) / (2 x) is 1/4 to within a rounding.
SMALL_MARGIN = 1e-7


@compiled(nogil=True, fastmath=FAST_MATH)
def newton_steps(z, gradients, curvatures, values, precisions):  # type: ignore[no-untyped-def]
    """A Gaussian observation of each number, (m x N): the value is one Newton step from z.

    Of a number whose curvature is 0, or not finite, the precision is 1.
    """
    for chain in range(z.shape[0]):
        for p in range(z.shape[1]):
            curvature = curvatures[chain, p]
            if not curvature > 0.0:
                curvature = 1.0
            step = gradients[chain, p] / curvature
            values[chain, p] = z[chain, p] - step if np.isfinite(step) else z[chain, p]
            precisions[chain, p] = curvature if np.isfinite(curvature) else 1.0


@compiled(nogil=True, fastmath=FAST_MATH)
def accept_moves(  # type: ignore[no-untyped-def]
    thresholds, units, unit_of_number, precisions, means, drawn, now, proposals, after, before
):
    """Accept moves of units, in place; the share of rows that moved.

    A unit moves where its log ratio of densities is above its threshold: that of the priors of its
    rows, that of the proposals, and the change of the logs of its numbers.

    Parameters
    ----------
    thresholds : array (n,)
        Logarithms of uniform numbers, overwritten.
    units, unit_of_number : arrays of integers (n,), (numbers,)
    precisions, means : arrays (n x K)
        Of the priors.
    drawn, now : arrays (n x K)
        ``now`` is overwritten where a row has moved.
    proposals : array (n,)
        The log density of the way back less that of the way there.
    after, before : arrays (3 x numbers)
        Values, precisions and logs; ``before`` is overwritten where a row has moved.
    """
    n, width = now.shape
    ratios = np.zeros(n)
    for row in range(n):
        total = proposals[row]
        for k in range(width):
            old, new = now[row, k] - means[row, k], drawn[row, k] - means[row, k]
            total += 0.5 * precisions[row, k] * (old * old - new * new)
        ratios[units[row]] += total
    for p in range(unit_of_number.size):
        ratios[unit_of_number[p]] += after[2, p] - before[2, p]
    moved = 0
    for row in range(n):
        unit = units[row]
        if thresholds[unit] < ratios[unit]:
            now[row] = drawn[row]
            moved += 1
    for p in range(unit_of_number.size):
        unit = unit_of_number[p]
        if thresholds[unit] < ratios[unit]:
            for k in range(3):
                before[k, p] = after[k, p]
    return moved / max(n, 1)


@compiled(nogil=True, fastmath=FAST_MATH)
def move_rows(  # type: ignore[no-untyped-def]
    members, free, fixed, packed, starts, across, places, others, precisions, means, weights,
    factors, edges, constants, of_numbers, offsets, least_ratio, least, n_rows, step, normal,
    thresholds, observations, now,
):  # fmt: skip
    """Move some rows given the other side, in place; how many moved, -1 where none can.

    The moves are those of ``draw_rows``, accepted as by ``accept_moves``.

    Parameters
    ----------
    members : array of integers (n,)
        Rows, of those of all chains.
    free, fixed : arrays of integers (k,), (K - k,)
        Numbers of a row that move, and those that stay.
    packed : array (k x k)
        The places of the entries of a packed matrix of free numbers.
    starts, across, places : arrays
        Entries by rows, as in ``Compressed``, of all chains.
    others : array (n_others x K)
    precisions, means : arrays (all rows x K)
        Of the priors.
    weights, factors, edges : arrays (m or 1 x numbers x J)
    constants : array (m or 1 x numbers)
        A loss is a constant and J terms ``weight log(1 + exp(x))`` with x = factor (z + offset -
        edge).
    of_numbers, offsets : arrays (numbers,)
        Weights, below 0 of numbers with Gaussian observations, and what is added to z.
    least_ratio, least : float
        Its curvature in a proposal is at least ``least``, and ``least_ratio`` times that of the
        parabola that bounds it, the sum of ``weight factor^2 tanh(|x| / 2) / (2 |x|)``.
    n_rows : int
        Rows of a chain.
    step : float
    normal, thresholds : arrays (n x k), (all rows,)
    observations : array (3 x numbers of all chains)
        Values, precisions and logs, overwritten where a row moves.
    now : array (all rows x K)
        Overwritten where a row moves.
    """
    k, width, n_numbers = free.size, now.shape[1], offsets.size
    equations, right = np.empty(k * (k + 1) // 2), np.empty(k)
    root, solved, drawn = np.empty((k, k)), np.empty(k), np.empty(width)
    precision = np.empty(k)
    spread, moved, longest = np.sqrt(step * (2.0 - step)), 0, 0
    for row in members:
        longest = max(longest, starts[row + 1] - starts[row])
    after = np.empty((3, longest))
    for r in range(members.size):
        row = members[r]
        first, count = starts[row], starts[row + 1] - starts[row]
        ratio = -thresholds[row]
        chain = row // n_rows
        first_number, of_chain = chain * n_numbers, min(chain, weights.shape[0] - 1)
        for a in range(width):
            drawn[a] = now[row, a]
        for back in range(2):  # the move, then the way back
            for a in range(k):
                precision[a] = precisions[row, free[a]]
                right[a] = precision[a] * means[row, free[a]]
            equations[:] = 0.0
            for e in range(count):
                place, other = places[first + e], across[first + e]
                value, number_precision = observations[0, place], observations[1, place]
                if back:
                    z = 0.0
                    for a in range(width):
                        z += others[other, a] * drawn[a]
                    number = place - first_number
                    weight = of_numbers[number]
                    if weight < 0.0:
                        log = -0.5 * number_precision * (value - z) * (value - z)
                    else:
                        loss, gradient = constants[of_chain, number], 0.0
                        curvature, bound = 0.0, 0.0
                        for j in range(weights.shape[2]):
                            share, factor = (
                                weights[of_chain, number, j],
                                factors[of_chain, number, j],
                            )
                            if share == 0.0:
                                continue
                            x = factor * (z + offsets[number] - edges[of_chain, number, j])
                            size = abs(x)
                            decay = np.exp(-size)
                            probability = 1.0 / (1.0 + decay)
                            loss += share * (max(x, 0.0) + np.log(1.0 + decay))
                            below = probability if x > 0.0 else decay * probability
                            gradient += share * factor * below
                            share *= factor * factor
                            curvature += share * decay * probability * probability
                            quotient = 0.25
                            if size > SMALL_MARGIN:
                                quotient = 0.5 * (1.0 - decay) * probability / size
                            bound += share * quotient
                        curvature = max(curvature, max(least_ratio * bound, least))
                        log = -weight * loss
                        number_precision = weight * curvature if weight > 0.0 else 1.0
                        value = z - weight * gradient / number_precision
                    ratio += log - observations[2, place]
                    after[0, e], after[1, e], after[2, e] = value, number_precision, log
                for a in fixed:
                    value -= others[other, a] * drawn[a]
                packed_place = 0
                for a in range(k):
                    scaled = number_precision * others[other, free[a]]
                    right[a] += scaled * value
                    for b in range(a + 1):
                        equations[packed_place] += scaled * others[other, free[b]]
                        packed_place += 1
            if not factorise(equations, precision, packed, root):
                if not back:
                    return -1
                ratio = -np.inf
                break
            solve_lower(root, right, solved)
            sign = 1.0 if back else -1.0
            for a in range(k):
                ratio += sign * np.log(root[a, a])
            if back:
                for a in range(k):
                    distance = -step * solved[a]
                    for b in range(a, k):
                        origin = (1.0 - step) * drawn[free[b]]
                        distance += root[b, a] * (now[row, free[b]] - origin)
                    ratio -= 0.5 * distance * distance / (spread * spread)
                continue
            for a in range(k):
                of_origin = 0.0
                if step < 1.0:
                    for b in range(a, k):
                        of_origin += root[b, a] * now[row, free[b]]
                ratio += 0.5 * normal[r, a] * normal[r, a]
                solved[a] = step * solved[a] + (1.0 - step) * of_origin + spread * normal[r, a]
            for a in range(k - 1, -1, -1):
                number_drawn = solved[a] / root[a, a]
                drawn[free[a]] = number_drawn
                for b in range(a):
                    solved[b] -= root[a, b] * number_drawn
            for a in range(k):
                f = free[a]
                old, new = now[row, f] - means[row, f], drawn[f] - means[row, f]
                ratio += 0.5 * precision[a] * (old * old - new * new)
        if ratio > 0.0:
            moved += 1
            for a in range(k):
                now[row, free[a]] = drawn[free[a]]
            for e in range(count):
                place = places[first + e]
                for q in range(3):
                    observations[q, place] = after[q, e]
    return moved
