"""The verb ``path``: one model at a descending sequence of weights, each fit from the last."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from mcframe.backends import (
    BackendLike,
    Budget,
    Settings,
    Start,
    checked_backend,
    checked_budget,
)
from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array
from mcframe.contracts.endings import Status, StopReason
from mcframe.contracts.errors import BackendError, NotCertifiedWarning, warn_caller
from mcframe.contracts.former import PATH
from mcframe.contracts.pictures import Pictured
from mcframe.contracts.showing import card, table_as_html
from mcframe.contracts.validators import Options, RandomState, counted, without_former_options
from mcframe.fitting.fit import solve_with
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Block, Model, Problem
from mcframe.runtime.machine import blas_alone
from mcframe.runtime.progress import stage
from mcframe.selection.grid import Grid
from mcframe.selection.weight_max import chosen_place
from mcframe.storage.archive import Archive
from mcframe.storage.digest import digest_of

if TYPE_CHECKING:  # what the pictures are; nothing of them is needed to run
    from mcframe.plots.of_answers import PathPictures

# The ridge on free effects in the fits that a cross-validation compares: a tenth of an entry.
EFFECTS_WEIGHT = 0.1
ROW_FORMAT = "{:>12}  {:<15}  {:>15}  {:>7}  {:>4}  {:>8}"
COLUMN_TITLES = ("weight", "status", "objective", "gap", "rank", "time")
HEADER_LINE = ROW_FORMAT.format(*COLUMN_TITLES)


@attrs.frozen(eq=False, repr=False)
class Path(Pictured["PathPictures"]):
    """Fits of one model at descending weights of one term; ``path[k]`` is a ``Fit``.

    Attributes
    ----------
    term : str
        The class of the term.
    weights : array
        Its weights, descending; after an interruption only those that have fits.
    fits : tuple of Fit
        One fit for each weight, each with its certificate.
    """

    term: str
    weights: Array
    fits: tuple[Fit, ...]

    def __len__(self) -> int:
        return len(self.fits)

    def __getitem__(self, place: Any) -> Any:
        return self.fits[place]

    def __iter__(self) -> Iterator[Fit]:
        return iter(self.fits)

    def __repr__(self) -> str:
        return "\n".join(
            [self._title(), HEADER_LINE, *(ROW_FORMAT.format(*row) for row in self._rows())]
        )

    def _repr_html_(self) -> str:
        return card(self._title(), table_as_html(COLUMN_TITLES, self._rows()))

    def _title(self) -> str:
        return f"Path: {counted(len(self), 'weight')} of {self.term}"

    def _rows(self) -> list[tuple[str, ...]]:
        return [cells(weight, fit) for weight, fit in zip(self.weights, self.fits, strict=True)]


def cells(weight: float, fit: Fit) -> tuple[str, ...]:
    """Return a fit as a row of the table."""
    numbers = f"{fit.objective:.9g}", f"{fit.gap:.1e}", str(fit.rank)
    return (f"{weight:.6g}", fit.status, *numbers, f"{fit.history[-1].seconds:.2f} s")


@without_former_options(PATH)
def path(
    model: Model,
    data: Mapping[str, Any],
    *,
    weights: Sequence[float] | Array | Grid | None = None,
    backend: BackendLike = "auto",
    tol: float = 1e-6,
    max_iter: int = 20_000,
    max_seconds: float = np.inf,
    random_state: RandomState = 0,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Path:
    """Fit a model at descending weights of one of its terms, each fit starting from the last.

    The data are read and checked once. A fit starts where the last one ended.

    Parameters
    ----------
    model : Model
        The declared weight of the term is not used.
    data : as in ``fit``
    weights : list of float, or Grid of ``mcframe.selection``, optional
        Strictly descending. By default ``Grid()``: 20 weights, geometrically spaced from
        ``weight_max``, the smallest weight at which the answer is trivial, down to a hundredth of
        it. ``Grid(count=..., ratio=...)`` has others, and ``Grid(term=...)`` names the term whose
        weight changes, which is the model's NuclearNorm or MaxNorm by default, else its only term
        with a weight.
    backend, tol, random_state : as in ``fit``
    max_iter, max_seconds : as in ``fit``
        Limits of each fit. A fit that they end does not end the path.
    progress : bool, optional
        As in ``fit``: how many fits are done, and the gap of the one under way.
    checkpoint : str or Path, optional
        A file into which every fit is written as soon as it is finished. A later call with the
        same model, data, weights and options continues from there, however this one ended. It is
        an ``.npz`` of arrays and JSON, and no code in it is run when it is read.

    Returns
    -------
    Path
        With one ``NotCertifiedWarning`` if some fits are not certified. Ctrl-C ends the path
        and returns the fits so far, the best point of the last one included.

    Raises
    ------
    DataError, ModelError, BackendError
        As in ``fit``, a ``BackendError`` only if it ends the first fit; a ``DataError`` if
        ``checkpoint`` holds the fits of another model, of other data or options.

    Examples
    --------
    >>> import numpy as np, mcframe as mc
    >>> model = mc.Model([mc.Block("x", mc.Gaussian())], [mc.NuclearNorm(1.0)])
    >>> path = mc.path(model, {"x": np.diag([4.0, 3.0])}, weights=[4.0, 2.0, 1.0])
    >>> [fit.rank for fit in path]
    [0, 2, 2]
    """
    shown = Options.progress(progress)
    problem = Problem.bind(model, data)
    grid = Grid.of(weights)
    place = chosen_place(model, grid.term)
    budget = checked_budget(tol, max_iter, max_seconds)
    seed = Options.random_state(random_state)
    # With None any fresh seed goes on from a file.
    name_of_seed = "None" if random_state is None else str(seed)
    compiled = CompiledProblem(problem)
    checked_backend(backend, compiled)
    sequence = grid.weights(compiled, place)
    fits, notes = list[Fit](), []
    try:
        with stage("path", shown) as display:
            for fit in fits_along(
                compiled, place, sequence, backend, budget, seed, checkpoint, name_of_seed
            ):
                fits.append(fit)
                display.count(len(fits), sequence.size, "weights")
                if fit.reason is StopReason.FROM_OUTSIDE:
                    raise KeyboardInterrupt
    except (KeyboardInterrupt, BackendError) as error:
        # The finished fits have cost work: the error of the next one becomes a warning.
        if not fits:
            raise
        why = str(error) or "it was interrupted from outside"
        notes.append(f"the path ended after {len(fits)} of {sequence.size} weights: {why}")
    open_fits = [fit for fit in fits if fit.status is not Status.CERTIFIED]
    if open_fits:
        statuses = ", ".join(sorted({fit.status for fit in open_fits}))
        notes.append(
            f"{len(open_fits)} of {len(fits)} fits are not certified ({statuses}); the largest"
            f" gap is {max(fit.gap for fit in open_fits):.1e}, tol={tol:g}"
        )
    if notes:
        warn_caller("; ".join(notes), NotCertifiedWarning)
    return Path(model.terms[place].word, sequence[: len(fits)], tuple(fits))


def fits_along(
    compiled: CompiledProblem,
    place: int,
    sequence: Array,
    backend: BackendLike,
    budget: Budget,
    seed: int,
    checkpoint: object = None,
    name_of_seed: str = "",
) -> Iterator[Fit]:
    """Yield a fit at each weight, from the checkpoint where it has a finished one.

    All fits are by one backend, which does not depend on the weight. A checkpoint is one of a
    seed, or of the name that is given for it.
    """
    chosen = checked_backend(backend, compiled)
    settings = Settings(budget, random_state=seed)
    archive, start = None, settings.start
    if checkpoint is not None:
        identity = identity_of([compiled.problem], [place], sequence, budget, "model")
        options = {"backend": digest_of(chosen), "random_state": name_of_seed or str(seed)}
        archive = Archive.at_path(checkpoint, "path", identity | options)
    for key, weight in zip(map(str, range(sequence.size)), sequence, strict=True):
        variant = compiled.with_weight(place, float(weight))
        if archive is not None and key in archive:
            fit = archive.read(key, Fit.__name__, problem=variant.problem)
        else:
            # Threads of products of factors would wait for one another.
            with blas_alone(), stage(f"weight {weight:.3g}"):
                fit = solve_with(variant, chosen, attrs.evolve(settings, start=start))
            # An interrupted fit is repeated by the next call.
            if archive is not None and fit.reason is not StopReason.FROM_OUTSIDE:
                archive.add(key, fit, problem=variant.problem)
        if chosen.start_refusal is None:
            start = Start(fit.point)
        yield fit


def identity_of(
    problems: Sequence[Problem], places: Sequence[int], weights: Array, budget: Budget, word: str
) -> dict[str, str]:
    """Return what must not change between the calls that share a checkpoint: digests and limits.

    The models have the key ``word``, without the weights of the terms at these places. Weights
    have 9 digits: more may depend on the number of threads that computed them.
    """
    pairs = zip(problems, places, strict=True)
    return {
        word: digest_of(
            [digest_of(problem.with_weight(place, 1.0).model) for problem, place in pairs]
        ),
        "data": problems[0].digest_of_data,
        "weights": digest_of([f"{weight:.9g}" for weight in weights.ravel()]),
        **{name: str(value) for name, value in attrs.asdict(budget).items()},
    }


def certified_path(
    model: Model,
    data: Mapping[str, Any],
    weights: Array,
    *,
    place: int,
    backend: BackendLike,
    budget: Budget,
    checkpoint: str | None = None,
) -> Iterator[Fit]:
    """Yield the fits of ``mc.path``, kept in a file if one is given.

    Effects that may be infinite have a ridge of ``EFFECTS_WEIGHT``.
    """
    compiled = CompiledProblem(Problem.bind(with_ridge(model, EFFECTS_WEIGHT), data))
    return fits_along(compiled, place, weights, backend, budget, 0, checkpoint)


def may_be_infinite(block: Block) -> bool:
    """Return True for a block whose effects are infinite if all its observations are equal.

    The effects of a location are means or quantiles of observations, and finite.
    """
    free = (block.bias or block.row_effects) and block.effects_weight is None
    return free and not block.likelihood.location


def with_ridge(model: Model, weight: float) -> Model:
    """Return the model with a ridge on effects that may be infinite without one."""
    blocks = [
        attrs.evolve(block, effects_weight=weight) if may_be_infinite(block) else block
        for block in model.blocks
    ]
    return attrs.evolve(model, blocks=blocks)
