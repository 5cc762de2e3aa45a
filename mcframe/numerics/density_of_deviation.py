"""The mean square of a deviation whose log density is known at few points."""

from collections.abc import Callable

import numpy as np

# The points of the sum over the density, and how many standard deviations it reaches.
N_POINTS, REACH = 201, 6.0
# A point beyond the last one, over this. The search ends where the root mean square is so many
# standard deviations from a point, and the three points of the parabola are within so many, or
# after so many points. If these are farther, there is one so many from the root mean square.
LARGER, NEAR, WITHIN, ASIDE, MOST_POINTS = 2.0, 0.3, 6.0, 1.5, 10


def mean_square(log_density: Callable[[float], float], largest: float, least: float) -> float:
    """E s^2 of a deviation s > 0, whose log density is known up to a constant.

    The density is that of a Gaussian, cut off at 0: its logarithm is the parabola through the
    largest of the values and its neighbours. The next value is at the root mean square under it,
    until one was near.

    Parameters
    ----------
    log_density : function of a float
        It is asked rarely: ten times at most.
    largest, least : float
        About the largest deviation that is likely, and one that is next to 0.
    """
    values: dict[float, float] = {}
    for s in (0.5 * largest, least, largest):
        values[s] = log_density(s)
    while True:
        deviations, logs = np.array(sorted(values.items())).T
        best = int(np.argmax(logs))
        first = int(np.clip(best - 1, 0, deviations.size - 3))
        three = deviations[first : first + 3]
        steep = np.diff(logs[first : first + 3]) / np.diff(three)
        curvature = float((steep[1] - steep[0]) / (three[2] - three[0]))
        slope = float(steep[0] - curvature * (three[0] + three[1]))
        if curvature < 0.0:
            s, sd = root_mean_square(curvature, slope), float(np.sqrt(-0.5 / curvature))
            s = float(np.clip(s, least, LARGER * deviations[-1]))
            if np.min(np.abs(deviations - s)) > NEAR * sd:
                next_s = s
            elif three[2] - three[0] > WITHIN * sd:
                side = 1.0 if three[2] - s > s - three[0] else -1.0
                next_s = max(s + side * ASIDE * sd, least)
            else:
                return s * s
        elif best == deviations.size - 1:
            s = next_s = float(LARGER * deviations[-1])
        else:
            s = float(deviations[best])
            next_s = 0.5 * (s + float(deviations[best + 1]))
        if next_s in values or len(values) >= MOST_POINTS:
            return s * s
        values[next_s] = log_density(next_s)


def root_mean_square(curvature: float, slope: float) -> float:
    """The root mean square of s > 0, of the density exp(curvature s^2 + slope s), normalised."""
    mode, sd = -0.5 * slope / curvature, np.sqrt(-0.5 / curvature)
    low = max(mode - REACH * sd, 0.0)
    # Far below 0 the density falls like an exponential of this slope.
    width = sd if mode >= 0.0 else min(sd, 1.0 / abs(slope))
    s = np.linspace(low, max(mode, 0.0) + REACH * width, N_POINTS)
    exponents = curvature * np.square(s) + slope * s
    shares = np.exp(exponents - np.max(exponents))
    return float(np.sqrt(np.sum(shares * np.square(s)) / np.sum(shares)))
