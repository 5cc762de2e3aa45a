"""What all chains of a sampler share: their state as arrays, and observations of any likelihood.

The steps of a sampler see each block's log likelihood as Gaussian observations of its numbers of
z, one Newton step from where a chain is; whether a move is accepted is up to the log likelihoods
themselves.
"""

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Self

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, IntArray
from mcframe.contracts.likelihood import (
    GaussianBound,
    GaussianNoise,
    LogisticTerms,
    Parametric,
    TwiceDifferentiable,
)
from mcframe.contracts.limits import MOST_STEPS
from mcframe.numerics.logistic_loops import newton_steps
from mcframe.posterior.observed import Observed, ObservedBlock

# Weights, factors and edges (m or 1 x J x N), and constants (m or 1 x N).
LogisticArrays = tuple[Array, Array, Array, Array]

# The width of the interval in which the logarithm of a scale is searched.
LOG_SCALE_WIDTH = 2.0
# The weight of the last sweep in the mean share of moves that are accepted.
ACCEPTANCE_MEMORY = 0.02
# The smallest curvature of a proposal, over that of the parabola that bounds the likelihood: far
# from what was observed a loss is a line, and a Newton step would leave for infinity.
LEAST_CURVATURE_RATIO = 0.3
LEAST_CURVATURE = 1e-8
# How often a move is shorter than a draw, and its lengths: from the tails of a posterior, whose
# curvature is another one there, long moves are hardly ever accepted.
SHORT_STEP_SHARE, SHORT_STEPS = 0.4, (0.05, 0.7)


@attrs.define(eq=False)
class ChainState:
    """Numbers of m chains, or of m draws, which have the first axis of all arrays.

    Fields are arrays, states, or tuples of these.
    """

    def mapped(self, function: Callable[[Array], Array]) -> Self:
        """The state with a function applied to all arrays."""

        def apply(part: Any) -> Any:
            if isinstance(part, ChainState):
                return part.mapped(function)
            return tuple(map(apply, part)) if isinstance(part, tuple) else function(part)

        return type(self)(**{name: apply(part) for name, part in self.parts.items()})

    @property
    def parts(self) -> dict[str, Any]:
        """The fields by their names."""
        return attrs.asdict(self, recurse=False)

    @property
    def n_chains(self) -> int:
        """m."""
        first = next(iter(self.parts.values()))
        return first.n_chains if isinstance(first, ChainState) else len(first)

    def copy(self) -> Self:
        """A copy of all arrays."""
        return self.mapped(np.array)

    def take(self, chains: IntArray) -> Self:
        """The state of some chains."""
        return self.mapped(lambda array: array[chains])

    @classmethod
    def joined(cls, states: Sequence[Self]) -> Self:
        """The states of several sets of chains, one after the other."""

        def join(*parts: Any) -> Any:
            if isinstance(parts[0], ChainState):
                return type(parts[0]).joined(parts)
            if isinstance(parts[0], tuple):
                return tuple(map(join, *parts))
            return np.concatenate(parts)

        columns = [state.parts for state in states]
        return cls(**{name: join(*(part[name] for part in columns)) for name in columns[0]})


def is_bent(block: ObservedBlock) -> bool:
    """True if the log likelihood of a block is no parabola."""
    return not isinstance(block.likelihood, GaussianNoise)


def sliced(
    log_density: Callable[[Array], Array], at: Array, rng: np.random.Generator, width: float
) -> Array:
    """One step of slice sampling of each of some numbers (Neal, Annals of Statistics 2003).

    From an interval of this width about each, placed at random, which shrinks.
    """
    floor = log_density(at) - rng.exponential(size=at.shape)
    low = at - width * rng.random(at.shape)
    high = low + width
    moved = rng.uniform(low, high)
    for _ in range(MOST_STEPS):
        outside = ~(log_density(moved) >= floor)
        if not outside.any():
            return moved
        low = np.where(outside & (moved < at), moved, low)
        high = np.where(outside & (moved >= at), moved, high)
        moved = np.where(outside, rng.uniform(low, high), moved)
    return np.where(outside, at, moved)


@attrs.define(eq=False)
class ObservedChains(ABC):
    """The states of m chains given the entries of a problem, and the steps between them.

    Attributes
    ----------
    observed : Observed
    rng : numpy.random.Generator
    learns_priors : bool
        Whether priors, noise and parameters are drawn too, or stay as they are.
    latest : array (3 x m x numbers), or None
        ``observations`` at the present state, as the last move left them; None where anything
        else has changed since.
    targets : list of arrays (N,) or (m x N)
        The observations of each block: those of ``observed``, or others of each chain.
    terms : dict
        Of each block whose loss is a sum of logistic functions its terms, and the observations
        and parameters that have these.
    all_terms : tuple, or None
        The terms of several blocks, and these in the order of all numbers of z.
    acceptance : list of float
        The shares of moves that are accepted, of each kind of move.
    """

    observed: Observed
    rng: np.random.Generator
    learns_priors: bool = attrs.field(default=True, kw_only=True)
    targets: list[Array] = attrs.field(init=False)
    latest: Array | None = attrs.field(init=False, default=None)
    terms: dict[int, tuple[Array, bytes, LogisticArrays]] = attrs.field(init=False, factory=dict)
    all_terms: tuple[list[LogisticArrays], LogisticArrays] | None = attrs.field(
        init=False, default=None
    )
    n_steps: int = attrs.field(init=False, default=0)
    acceptance: list[float] = attrs.field(init=False, factory=lambda: [1.0, 1.0])

    def __attrs_post_init__(self) -> None:
        self.targets = [block.y for block in self.observed.blocks]

    @property
    @abstractmethod
    def n_chains(self) -> int:
        """m."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The count of numbers that a snapshot of all chains has."""

    @property
    @abstractmethod
    def z(self) -> Array:
        """z of all entries without offsets and predictors' noise (m x numbers)."""

    @property
    @abstractmethod
    def noise(self) -> Array:
        """The noise variance of each column of Z, where a block has one for each (m x columns)."""

    @property
    @abstractmethod
    def parameters(self) -> tuple[Array, ...]:
        """The parameters of the likelihood of each block (m x p)."""

    @abstractmethod
    def sweep(self) -> None:
        """One step of everything."""

    @abstractmethod
    def predictors_at(self, rows: IntArray, columns: IntArray) -> Array:
        """z at cells, observed or not (m x N)."""

    @property
    @abstractmethod
    def watched_columns(self) -> IntArray:
        """The columns of Z that have parameters of their own, which are drawn."""

    @abstractmethod
    def parameters_at(self, columns: IntArray) -> Array:
        """The parameters of some of these columns, and of all, on a scale to judge (m x N)."""

    @abstractmethod
    def snapshot(self) -> ChainState:
        """A copy of what answers are made of."""

    # ------------------------------------------------------------------------ observations

    def likelihoods(self, b: int) -> list[tuple[slice, Any]]:
        """The likelihood of a block: one for all chains, or one each where it has parameters."""
        block, parametric = self.observed.blocks[b], self.parameters[b]
        if not parametric.size:
            return [(slice(0, self.n_chains), block.likelihood)]
        unfitted: Any = block.unfitted
        return [
            (slice(c, c + 1), unfitted.with_parameters(of_chain))
            for c, of_chain in enumerate(parametric)
        ]

    def shaped(self, b: int, z: Array) -> Array:
        """Predictors of a block with offsets, (m x N), or (m x N x K) of K classes."""
        block = self.observed.blocks[b]
        width, m = block.likelihood.width, self.n_chains
        shaped = z[:, block.part].reshape(m, -1, width) if width > 1 else z[:, block.part]
        if np.ndim(block.offset):
            shaped = shaped + np.reshape(block.offset, shaped.shape[1:])
        return shaped

    def evaluated(self, b: int, t: Array, derivatives: bool = True) -> tuple[Array, Array, Array]:
        """Log likelihoods (m x N) of a block at predictors, gradients, and positive curvatures.

        All times the weights of the entries.
        """
        block = self.observed.blocks[b]
        n, weights = block.y.size, np.broadcast_to(block.weights, block.y.shape)
        logs, gradients, curvatures = np.empty(t.shape[:2]), np.empty(t.shape), np.empty(t.shape)
        y = np.broadcast_to(self.targets[b], t.shape[:2])
        for chains, likelihood in self.likelihoods(b):
            part = t[chains]
            flat = part.reshape(-1, *t.shape[2:])
            targets = y[chains].ravel()
            with np.errstate(over="ignore", invalid="ignore"):
                if not derivatives:
                    logs[chains] = -weights * likelihood.value(flat, targets).reshape(-1, n)
                    continue
                value, gradient = likelihood.value_and_gradient(flat, targets)
                curvature = proposal_curvature(likelihood, flat, targets)
            logs[chains] = -weights * value.reshape(-1, n)
            shaped = weights[:, None] if t.ndim > 2 else weights
            gradients[chains] = shaped * gradient.reshape(part.shape)
            curvatures[chains] = shaped * curvature.reshape(part.shape)
        return np.where(np.isnan(logs), -np.inf, logs), gradients, curvatures

    def logistic_terms(self, b: int) -> LogisticArrays | None:
        """Terms of the loss of a block, (m or 1 x N x J), and constants; None of other losses."""
        if not isinstance(self.observed.blocks[b].unfitted, LogisticTerms):
            return None
        targets, key = self.targets[b], self.parameters[b].tobytes()
        if b in self.terms and self.terms[b][0] is targets and self.terms[b][1] == key:
            return self.terms[b][2]
        parts = [
            likelihood.logistic_terms(y)
            for chains, likelihood in self.likelihoods(b)
            for y in (targets[chains] if targets.ndim > 1 else targets[None])
        ]
        if parts[0] is None:
            return None
        *terms, constants = map(np.stack, zip(*parts, strict=True))
        arrays: Any = (*(np.ascontiguousarray(one.swapaxes(1, 2)) for one in terms), constants)
        self.terms[b] = targets, key, arrays
        return self.terms[b][2]

    def all_logistic_terms(self) -> LogisticArrays | None:
        """The terms of all numbers of z, as ``move_rows`` takes them; None of other losses.

        Of Gaussian numbers they are 0.
        """
        blocks, n_numbers = self.observed.blocks, self.observed.n_numbers
        bent = [b for b, block in enumerate(blocks) if is_bent(block)]
        parts = {b: self.logistic_terms(b) for b in bent}
        arrays = [part for part in parts.values() if part is not None]
        if len(arrays) < len(bent) or not arrays:
            return None
        if self.all_terms is not None and all(map(operator.is_, self.all_terms[0], arrays)):
            return self.all_terms[1]
        m, n_terms = (max(part[0].shape[axis] for part in arrays) for axis in (0, 2))
        weights, factors, edges = np.zeros((3, m, n_numbers, n_terms))
        constants = np.zeros((m, n_numbers))
        for b, part in zip(bent, arrays, strict=True):
            place = blocks[b].part
            for whole, one in zip((weights, factors, edges), part, strict=False):
                whole[:, place, : one.shape[2]] = one
            constants[:, place] = part[3]
        self.all_terms = arrays, (weights, factors, edges, constants)
        return self.all_terms[1]

    @cached_property
    def weights_and_offsets(self) -> tuple[Array, Array]:
        """Weights and offsets of all numbers of z; the weight of Gaussian ones is -1."""
        weights, offsets = np.zeros((2, self.observed.n_numbers))
        for block in self.observed.blocks:
            weights[block.part] = block.weights if is_bent(block) else -1.0
            offsets[block.part] = block.offset
        return weights, offsets

    def log_likelihood(self, b: int, entries: IntArray, t: Array) -> Array:
        """The log likelihood (m,) of some entries of a block at their predictors (m x N)."""
        block = self.observed.blocks[b]
        y = np.broadcast_to(self.targets[b], (self.n_chains, block.y.size))[:, entries]
        weights = np.broadcast_to(block.weights, block.y.shape)[entries]
        logs = np.empty(self.n_chains)
        for chains, likelihood in self.likelihoods(b):
            flat = t[chains].reshape(-1, *t.shape[2:])
            with np.errstate(over="ignore", invalid="ignore"):
                losses = likelihood.value(flat, y[chains].ravel()).reshape(-1, entries.size)
            logs[chains] = -(losses @ weights)
        return np.where(np.isnan(logs), -np.inf, logs)

    def gaussian_block(self, b: int) -> tuple[Array, Array]:
        """Values (N,) or (m x N), and precisions (m x N) of the entries of a Gaussian block."""
        block, y = self.observed.blocks[b], self.targets[b]
        likelihood: Any = block.likelihood
        weights = np.broadcast_to(block.weights, block.y.shape)
        if block.learned_noise == "column":
            columns = block.columns.start + block.entry_columns
            return y, weights / self.noise[:, columns]
        precisions = weights / likelihood.variance
        return y - block.offset, np.broadcast_to(precisions, (self.n_chains, block.y.size))

    def observations(
        self, z: Array | None, replaced: Sequence[tuple[Array, Array] | None] | None = None
    ) -> Array:
        """A Gaussian observation of each number, (3 x m x numbers): value, precision, and log.

        The logs are log likelihoods of entries, at the first number of each. ``replaced`` has, of
        some blocks, values and precisions of Gaussian observations in the place of their own.
        Where all are Gaussian, z may be None: the logs are then 0.
        """
        observed = np.zeros((3, self.n_chains, self.observed.n_numbers))
        values, precisions, logs = observed
        for b, block in enumerate(self.observed.blocks):
            part, width = block.part, block.likelihood.width
            other = None if replaced is None else replaced[b]
            if other is not None or isinstance(block.likelihood, GaussianNoise):
                values[:, part], precisions[:, part] = other or self.gaussian_block(b)
                if z is not None:
                    squares = np.square(values[:, part] - z[:, part])
                    logs[:, part] = -0.5 * precisions[:, part] * squares
                continue
            assert z is not None  # which other likelihoods need
            t = self.shaped(b, z)
            of_entries, gradients, curvatures = self.evaluated(b, t)
            flat = np.ascontiguousarray(z[:, part])
            slopes = gradients.reshape(flat.shape), curvatures.reshape(flat.shape)
            newton_steps(flat, *slopes, values[:, part], precisions[:, part])
            logs[:, part.start : part.stop : width] = of_entries
        return observed

    def needs_acceptance(
        self, replaced: Sequence[tuple[Array, Array] | None] | None = None
    ) -> bool:
        """False where all observations are Gaussian, so that every draw is an exact one."""
        return any(
            not isinstance(block.likelihood, GaussianNoise)
            and (replaced is None or replaced[b] is None)
            for b, block in enumerate(self.observed.blocks)
            if block.y.size
        )

    def drawn_step(self, exact: bool) -> float:
        """The length of a move: 1 for a draw from the proposal, less for a shorter move."""
        if exact or self.rng.random() >= SHORT_STEP_SHARE:
            return 1.0
        return float(self.rng.uniform(*SHORT_STEPS))

    def count_accepted(self, kind: int, share: float) -> None:
        """Take the share of moves of a kind that were accepted into account."""
        self.acceptance[kind] += ACCEPTANCE_MEMORY * (share - self.acceptance[kind])

    def draw_parameters(self) -> None:
        """Draw the parameters of likelihoods, one of each in turn."""
        z = self.z
        for b, parameters in enumerate(self.parameters):
            if not parameters.size:
                continue
            self.latest = None
            t, place = self.shaped(b, z), self.n_steps % parameters.shape[1]
            log_density = partial(self.log_density_of_parameter, b, t, place)
            at = np.array(parameters[:, place])
            parameters[:, place] = sliced(log_density, at, self.rng, LOG_SCALE_WIDTH)

    def log_density_of_parameter(self, b: int, t: Array, place: int, at: Array) -> Array:
        """Log densities (m,) where one parameter of a block is this in each chain, at z = t."""
        parameters, unfitted = self.parameters[b], self.observed.blocks[b].unfitted
        assert isinstance(unfitted, Parametric)
        before = np.array(parameters[:, place])
        parameters[:, place] = at
        logs = np.array([unfitted.log_prior(of_chain) for of_chain in parameters])
        valid = np.isfinite(logs)
        parameters[~valid, place] = before[~valid]
        if valid.any():
            logs += np.sum(self.evaluated(b, t, derivatives=False)[0], axis=1)
        parameters[:, place] = before
        return logs


def proposal_curvature(likelihood: Any, z: Array, y: Array) -> Array:
    """The curvature of a proposal's log density at z: near that of the loss, and above 0.

    Where that is small, as far from what was observed, it is a share of the curvature of the
    parabola that bounds the loss, or else of the loss where it fits the observation.
    """
    zeros = np.zeros_like(z)
    if not isinstance(likelihood, TwiceDifferentiable):
        return np.maximum(likelihood.gaussian_bound(z, zeros, y)[1], LEAST_CURVATURE)
    twice: Any = likelihood
    reference = (
        likelihood.gaussian_bound(z, zeros, y)[1]
        if isinstance(likelihood, GaussianBound)
        else twice.second_derivative(twice.start(y), y)
    )
    least = np.maximum(LEAST_CURVATURE_RATIO * reference, LEAST_CURVATURE)
    return np.asarray(np.maximum(twice.second_derivative(z, y), least))
