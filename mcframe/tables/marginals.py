"""The scale on which a column of numbers is nearly Gaussian, chosen by held-out log density.

Rows are Gaussian on these scales. An answer goes back to the column's own unit, and so lies in
the support of the column: a positive number stays positive, and a share between 0 and 1.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

import attrs
import numpy as np
from scipy.special import expit

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.rounding import TINY
from mcframe.contracts.stored_classes import stored
from mcframe.model.transforms import AffineUnits, Chain, Transform
from mcframe.posterior.row_limits import censored_moments, widened
from mcframe.posterior.truncation import log_masses
from mcframe.tables.coding import NO_PLACES, Numbers
from mcframe.tables.known_limits import KnownLimits
from mcframe.tables.semicontinuous import SemiContinuous


class Bent(Transform):
    """A scale whose unit differs from number to number."""

    def unit(self, columns: IntArray) -> None:
        """None: it varies."""


@stored
@attrs.frozen
class Mirrored(Transform):
    """The number with the opposite sign."""

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """-x."""
        return -numbers

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """-z."""
        return -numbers

    def __str__(self) -> str:
        return "-x"


@stored
@attrs.frozen
class AboveBound(Bent):
    """``s log(exp(y / s) - 1)`` of a number x above a bound, ``y = x - bound``; else ``log y``.

    Far from the bound this is y, near to it ``s log(y / s)``: the inverse of the softplus
    function. Beyond the largest number that was observed it is a straight line, so that an answer
    there is not exponentially far away.

    Parameters
    ----------
    bound : float
    softness : float
        s; infinite for the logarithm.
    least, largest : float
        The least y that is told apart from smaller ones, and the largest y that was observed.
    """

    bound: float
    softness: float
    least: float
    largest: float

    @property
    def of_limits(self) -> Self:
        """The scale without ``least``."""
        return attrs.evolve(self, least=TINY)

    def bent(self, y: Array) -> Array:
        """The number on this scale, without the straight line."""
        if np.isinf(self.softness):
            return np.log(y)
        return y + self.softness * np.log(-np.expm1(-y / self.softness))

    def slope(self, y: Array) -> Array:
        """The derivative at y, without the straight line."""
        return 1.0 / (y if np.isinf(self.softness) else -np.expm1(-y / self.softness))

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The numbers on this scale."""
        y = np.maximum(numbers - self.bound, self.least)
        inside, largest = np.minimum(y, self.largest), np.array(self.largest)
        return self.bent(inside) + (y - inside) * self.slope(largest)

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The numbers above the bound."""
        largest = np.array(self.largest)
        inside = np.minimum(numbers, self.bent(largest))
        if np.isinf(self.softness):
            y = np.exp(inside)
        else:
            y = self.softness * np.logaddexp(0.0, inside / self.softness)
        return self.bound + y + (numbers - inside) / self.slope(largest)

    def log_derivative(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The logarithm of the slope."""
        return np.log(self.slope(np.clip(numbers - self.bound, self.least, self.largest)))

    def __str__(self) -> str:
        shifted = f"x {'+' if self.bound < 0.0 else '-'} {abs(self.bound):.3g}"
        distance = shifted if self.bound else "x"
        if np.isinf(self.softness):
            return f"log({distance})"
        return f"{distance}, as its logarithm below {self.softness:.3g}"


@stored
@attrs.frozen
class HeavyTails(Bent):
    """``arsinh((x - centre) / width)``, logarithms far from the centre on both sides.

    Beyond the numbers that were observed it is a straight line.

    Parameters
    ----------
    centre, width : float
    least, largest : float
        The numbers that were observed lie between these.
    """

    centre: float
    width: float
    least: float
    largest: float

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The numbers on this scale."""
        inside = np.clip(numbers, self.least, self.largest)
        bent = np.arcsinh((inside - self.centre) / self.width)
        return bent + (numbers - inside) * np.exp(self.log_derivative(inside, rows, columns))

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The numbers in their own unit."""
        ends = np.arcsinh((np.array([self.least, self.largest]) - self.centre) / self.width)
        inside = np.clip(numbers, *ends)
        straight = self.centre + self.width * np.sinh(inside)
        slopes = np.exp(self.log_derivative(straight, rows, columns))
        return straight + (numbers - inside) / slopes

    def log_derivative(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The logarithm of the slope."""
        distances = np.clip(numbers, self.least, self.largest) - self.centre
        return -np.log(np.hypot(distances, self.width))

    def __str__(self) -> str:
        return f"arsinh((x - {self.centre:.3g}) / {self.width:.3g})"


@stored
@attrs.frozen
class BetweenBounds(Bent):
    """``log((x - lower) / (upper - x))``, the logit.

    Parameters
    ----------
    lower, upper : float
    least : float
        Numbers nearer to a bound than this count as at this distance.
    """

    lower: float
    upper: float
    least: float

    @property
    def of_limits(self) -> Self:
        """The scale without ``least``."""
        return attrs.evolve(self, least=TINY)

    def apply(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The logits of numbers."""
        below = np.maximum(numbers - self.lower, self.least)
        above = np.maximum(self.upper - numbers, self.least)
        return np.log(below) - np.log(above)

    def invert(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """The numbers between the bounds."""
        return self.lower + (self.upper - self.lower) * expit(numbers)

    def log_derivative(self, numbers: Array, rows: IntArray, columns: IntArray) -> Array:
        """``log(1 / (x - lower) + 1 / (upper - x))``."""
        below = np.maximum(numbers - self.lower, self.least)
        above = np.maximum(self.upper - numbers, self.least)
        return np.log(1.0 / below + 1.0 / above)

    def __str__(self) -> str:
        return f"logit of x between {self.lower:.3g} and {self.upper:.3g}"


@attrs.frozen
class Support:
    """The ends of the range in which the values of a column lie, infinite where there are none.

    ``lower_edge`` and ``upper_edge`` lie outside of all values, those at the ends included: half a
    step of whole numbers, or half the distance of the nearest other value.
    """

    lower: float
    upper: float
    lower_edge: float
    upper_edge: float

    @classmethod
    def of(cls, numbers: Array, lower: float, upper: float, whole: bool) -> "Support":
        """The support of observed numbers with declared bounds, or evident ones.

        Evident are 0 as the end of numbers of one sign, and 1 as that of numbers from 0 to 1. An
        end that is farther from all numbers than these are from each other has no influence, and
        is left out.
        """
        least, largest = float(np.min(numbers)), float(np.max(numbers))
        if np.isinf(lower) and least >= 0.0:
            lower = 0.0
        if np.isinf(upper) and largest <= 0.0:
            upper = 0.0
        elif np.isinf(upper) and lower == 0.0 and largest <= 1.0 and not whole:
            upper = 1.0
        lower = -np.inf if least - lower > largest - least else lower
        upper = np.inf if upper - largest > largest - least else upper
        lower_edge = edge(lower, -edge_margin(numbers - lower, whole))
        upper_edge = edge(upper, edge_margin(upper - numbers, whole))
        return cls(lower, upper, lower_edge, upper_edge)


def edge(end: float, margin: float) -> float:
    """Return an end plus a margin; where that is the same number, the next one beyond the end."""
    if margin == 0.0 or end + margin != end:
        return end + margin
    return float(np.nextafter(end, np.copysign(np.inf, margin)))


def edge_margin(distances: Array, whole: bool) -> float:
    """Return how far beyond an end its edge lies, from the distances of numbers from the end."""
    if whole:
        return 0.5
    return 0.0 if np.min(distances) > 0.0 else 0.5 * float(np.min(distances[distances > 0.0]))


Maker = Callable[[Array], Chain | None]


def scales_tried(support: Support, mean: float, deviation: float) -> Iterator[Maker]:
    """Yield functions that make a scale of numbers; the first is the nearest to no scale at all.

    Numbers as they are where the ends of the support are three deviations away, so that draws that
    are moved to an end are few. Without bounds heavy tails; above (or below) a bound numbers that
    become logarithms within a tenth of a deviation, or one, of it, and logarithms; between bounds
    logits.
    """
    lower, upper = support.lower_edge, support.upper_edge
    if min(mean - lower, upper - mean) > 3.0 * deviation:
        yield lambda numbers: Chain()
    if np.isinf(lower) and np.isinf(upper):

        def with_tails(numbers: Array, share: float) -> Chain | None:
            low, centre, high = np.quantile(numbers, [0.25, 0.5, 0.75])
            ends = float(np.min(numbers)), float(np.max(numbers))
            width = share * float(high - low)
            return Chain((HeavyTails(float(centre), width, *ends),)) if width > 0.0 else None

        yield partial(with_tails, share=1.0)
        yield partial(with_tails, share=0.3)
        return
    if np.isfinite(lower) and np.isfinite(upper):

        def between(numbers: Array) -> Chain:
            least = float(min(np.min(numbers) - lower, upper - np.max(numbers)))
            return Chain((BetweenBounds(lower, upper, 0.5 * least),))

        yield between
        return

    def above(numbers: Array, softness: float) -> Chain:
        if np.isinf(lower):
            inner = AboveBound(-upper, softness, *ends_of(upper - numbers))
            return Chain((Mirrored(), inner, Mirrored()))
        return Chain((AboveBound(lower, softness, *ends_of(numbers - lower)),))

    for softness in (0.1 * deviation, deviation, np.inf):
        yield partial(above, softness=softness)


def ends_of(distances: Array) -> tuple[float, float]:
    """Return half the least distance from a bound, and the largest one."""
    return 0.5 * float(np.min(distances)), float(np.max(distances))


@attrs.frozen(eq=False)
class ScaleChoice:
    """The scale of a column that is the nearest to no scale, and the one of the largest density.

    Attributes
    ----------
    nearest, best : Chain or None
        The numbers on them have the mean 0 and the deviation 1. None where numbers differ too
        little.
    gain : float
        By how much the mean log density of held-out numbers is larger on the best one.
    """

    nearest: Chain | None
    best: Chain | None
    gain: float

    @classmethod
    def of(
        cls, numbers: Array, support: Support, limits: KnownLimits | None = None
    ) -> "ScaleChoice":
        """The choice for observed numbers (n,), by the density of a normal distribution.

        Of cells with ``limits`` (k,) by the probability of these.

        Fifths of the numbers are held out in turn. Another scale than the nearest one is taken
        if the mean log density is larger by at least .05 and by two standard errors, where a
        number counts for at most 3, so that no outlier decides. Only the nearest scale is tried
        of fewer than 20 numbers, and where the negentropy of the numbers on it is below .02,
        which is about what another scale could gain: skewness^2 / 12 + excess^2 / 48 (Jones and
        Sibson, What is projection pursuit?, Journal of the Royal Statistical Society A 150, 1987).
        """
        if limits is not None:
            return cls.beside_limits(numbers, support, limits)
        numbers = np.sort(numbers)
        mean, deviation = float(np.mean(numbers)), float(np.std(numbers))
        makers = list(scales_tried(support, mean, deviation))
        if numbers.size < 20 or negentropy(makers[0](numbers), numbers) < 0.02:
            nearest = standardized_scale(makers[0](numbers), numbers)
            return cls(nearest, nearest, 0.0)
        rng = np.random.default_rng(0)  # of sorted numbers, so that the order of rows is no matter
        tried = numbers if numbers.size <= 10_000 else np.sort(rng.choice(numbers, 10_000))
        parts = rng.permutation(tried.size) % 5
        densities = [held_out_densities(make, tried, parts) for make in makers]
        chains = [standardized_scale(make(numbers), numbers) for make in makers]
        return cls.of_densities(chains, densities, tried.size)

    @classmethod
    def beside_limits(cls, numbers: Array, support: Support, limits: KnownLimits) -> "ScaleChoice":
        """The choice for observed numbers and limits, by the density of what is not held out."""
        order = np.lexsort((limits.upper, limits.lower))
        numbers, limits = np.sort(numbers), limits.at(order)
        mean, variance = censored_moments(numbers, limits.lower, limits.upper)
        makers = list(scales_tried(support, mean, float(np.sqrt(variance))))
        if numbers.size < 20:
            makers = makers[:1]
        rng = np.random.default_rng(0)
        parts = rng.permutation(numbers.size) % 5
        limit_parts = rng.permutation(limits.lower.size) % 5
        ends = np.concatenate([limits.lower, limits.upper])  # which a scale tells apart
        inside = (ends > support.lower_edge) & (ends < support.upper_edge)
        spanned = np.concatenate([numbers, ends[inside]])
        made = [make(spanned) for make in makers]
        chains = [scale_beside_limits(chain, numbers, limits) for chain in made]
        densities = list[Array | None]()
        for chain in made:
            of_parts = list[Array]()
            for part in range(5):
                fitted = scale_beside_limits(
                    chain, numbers[parts != part], limits.at(limit_parts != part)
                )
                if fitted is None:
                    break
                held, slopes = (
                    function(numbers[parts == part], *NO_PLACES)
                    for function in (fitted.apply, fitted.log_derivative)
                )
                of_scale = widened(*ends_on(fitted, limits.at(limit_parts == part)), 1.0)
                zeros = np.zeros(of_scale[0].size)
                masses = log_masses(zeros, zeros + 1.0, *of_scale) + 0.5 * np.log(2.0 * np.pi)
                of_parts += [-0.5 * np.square(held) + slopes, masses]
            densities.append(np.concatenate(of_parts) if len(of_parts) == 10 else None)
        return cls.of_densities(chains, densities, numbers.size + limits.lower.size)

    @classmethod
    def of_densities(
        cls, chains: list[Chain | None], densities: list[Array | None], n_tried: int
    ) -> "ScaleChoice":
        """The choice by the log densities of held-out numbers on each scale, the nearest first."""
        best, gain = 0, 0.0
        for k, density in enumerate(densities[1:], start=1):
            if density is None or densities[0] is None:
                continue
            differences = np.clip(density - densities[0], -3.0, 3.0)
            least = max(0.05, 2.0 * float(np.std(differences)) / np.sqrt(n_tried))
            if np.mean(differences) > max(least, gain):
                best, gain = k, float(np.mean(differences))
        return cls(chains[0], chains[best], gain)


def ends_on(chain: Chain, limits: KnownLimits) -> tuple[Array, Array]:
    """The limits on a scale; infinite ones stay so."""
    lower, upper = (
        np.where(
            np.isfinite(end), chain.apply(np.where(np.isfinite(end), end, 0.0), *NO_PLACES), end
        )
        for end in (limits.lower, limits.upper)
    )
    return lower, upper


def scale_beside_limits(chain: Chain | None, numbers: Array, limits: KnownLimits) -> Chain | None:
    """Return a chain on which numbers and limits have the mean 0 and the deviation 1, or None."""
    if chain is None:
        return None
    scaled = chain.apply(numbers, *NO_PLACES)
    if not np.all(np.isfinite(scaled)) or not np.std(scaled) > 0.0:
        return None
    mean, variance = censored_moments(scaled, *ends_on(chain, limits))
    moments = (np.array([number]) for number in (0.0, mean, float(np.sqrt(variance))))
    return Chain((*chain, AffineUnits(*moments)))


def negentropy(chain: Chain | None, numbers: Array) -> float:
    """Return by how much a density on a scale is below that of a normal one, to fourth order."""
    if chain is None:
        return np.inf
    scaled = chain.apply(numbers, *NO_PLACES)
    scaled = (scaled - np.mean(scaled)) / np.std(scaled)
    squares = np.square(scaled)
    skewness, excess = np.mean(scaled * squares), np.mean(np.square(squares)) - 3.0
    return float(skewness**2 / 12.0 + excess**2 / 48.0)


def held_out_densities(make: Maker, numbers: Array, parts: IntArray) -> Array | None:
    """Return the log density of each number by a normal distribution of the other parts."""
    densities = np.empty(numbers.size)
    for part in np.unique(parts):
        held, fitted = numbers[parts == part], numbers[parts != part]
        chain = standardized_scale(make(fitted), fitted)
        if chain is None:
            return None
        scaled, slopes = (f(held, *NO_PLACES) for f in (chain.apply, chain.log_derivative))
        with np.errstate(over="ignore"):  # of a number as far off as 1e300
            densities[parts == part] = -0.5 * np.square(scaled) + slopes
    return densities


def standardized_scale(chain: Chain | None, numbers: Array) -> Chain | None:
    """Return a chain on which numbers have the mean 0 and the deviation 1; None if none has."""
    if chain is None:
        return None
    scaled = chain.apply(numbers, *NO_PLACES)
    deviation = float(np.std(scaled))
    if not (np.all(np.isfinite(scaled)) and deviation > 0.0):
        return None
    moments = (np.array([number]) for number in (0.0, float(np.mean(scaled)), deviation))
    return Chain((*chain, AffineUnits(*moments)))


def atom_of(numbers: Array) -> float | None:
    """Return the one value at which a continuous column has a point mass, such as 0; or None.

    At least one in ten numbers and ten of them have it, five times as many as have any other
    value, and there are ten different others.
    """
    counts = Counter(numbers.tolist()).most_common(2)
    (value, count), others = counts[0], counts[1][1] if len(counts) > 1 else 0
    is_mass = count >= max(10, 0.1 * numbers.size) and count >= 5 * others
    n_others = np.unique(numbers).size - 1
    return float(value) if is_mass and n_others >= 10 else None


def with_scales(
    coding: Numbers,
    codes: Array,
    may_have_atom: bool = True,
    known_limits: KnownLimits | None = None,
    may_change: bool = True,
) -> tuple[Numbers, Numbers]:
    """Return a coding of numbers on the scale nearest to no scale, and on the best one.

    Codes are those of the column (n,), NaN where missing. Fewer than ten numbers and few different
    ones, such as answers from 1 to 5, stay as they are, and so do those that may not change.
    Beside limits there is no point mass.
    """
    numbers = codes[~np.isnan(codes)]
    whole = bool(np.all(np.rint(numbers) == numbers))
    lower, upper = coding.lower / coding.unit, coding.upper / coding.unit
    if known_limits is not None:
        known_limits, may_have_atom = known_limits.at(known_limits.cells), False
    atom = atom_of(numbers) if may_have_atom and may_change else None
    if atom is not None:
        numbers = numbers[numbers != atom]
        lower = atom if np.isinf(lower) and np.all(numbers > atom) else lower
        upper = atom if np.isinf(upper) and np.all(numbers < atom) else upper
    n_distinct = np.unique(numbers).size
    if numbers.size < 10 or n_distinct < 2:
        return coding, coding
    spanned = numbers
    if known_limits is not None:
        ends = np.concatenate([known_limits.lower, known_limits.upper])
        spanned = np.concatenate([numbers, ends[np.isfinite(ends)]])
    support = Support.of(spanned, lower, upper, whole)
    if not may_change or n_distinct < min(12, max(3, numbers.size // 2)):  # answers on a scale
        coding = attrs.evolve(coding, support=(support.lower, support.upper))
        return coding, coding
    if known_limits is not None:  # those beyond the support say nothing
        known_limits = KnownLimits(
            np.where(known_limits.lower > support.lower, known_limits.lower, -np.inf),
            np.where(known_limits.upper < support.upper, known_limits.upper, np.inf),
        )
        known_limits = known_limits.at(known_limits.cells)
    choice = ScaleChoice.of(numbers, support, known_limits)
    if choice.nearest is None or choice.best is None:
        return coding, coding
    if atom is not None:
        coding = SemiContinuous.at(coding, atom)
    plain = attrs.evolve(coding, support=(support.lower, support.upper))
    if atom is not None or len(choice.nearest) > 1:
        plain = attrs.evolve(plain, scale=choice.nearest)
    if not choice.gain:
        return plain, plain
    return plain, attrs.evolve(plain, scale=choice.best, scale_gain=choice.gain)
