"""What a cross-validation has to do: paths of models on folds, and the order they come in."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import attrs

from mcframe.answer import Fit
from mcframe.backends import BackendLike, Budget, Settings, checked_backend
from mcframe.compile import CompiledProblem
from mcframe.contracts.arrays import Array
from mcframe.model import Model, Problem
from mcframe.selection.criteria import Criterion
from mcframe.selection.finished_fits import FinishedFits
from mcframe.selection.finite_effects import with_ridge
from mcframe.selection.folds import Fold
from mcframe.selection.paths import along
from mcframe.selection.scoring import PathOf, Scored, score

__all__ = ["CertifiedPath", "Part", "Work"]

# A model and the folds that its paths are walked on side by side: the unit of work.
Part = tuple[int, tuple[int, ...]]
# The seed of certified paths: the folds are all that is random.
SEED = 0


@attrs.frozen
class CertifiedPath:
    """The fits of ``mc.path``, made when they are asked for, in a file if one is given.

    Effects that may be infinite have a ridge of ``effects_weight``, if that is given.
    """

    place: int
    backend: BackendLike
    budget: Budget
    effects_weight: float | None
    checkpoint: str | None = None

    def __call__(self, model: Model, data: Mapping[str, Any], weights: Array) -> Iterator[Fit]:
        """A fit at each weight."""
        problem = Problem.bind(with_ridge(model, self.effects_weight), data)
        place, budget = self.place, self.budget
        compiled = CompiledProblem(problem)
        chosen = checked_backend(self.backend, compiled)
        finished = None
        if self.checkpoint is not None:
            finished = FinishedFits.of(
                self.checkpoint, problem, place, weights, chosen, budget, SEED
            )
        settings = Settings(budget, random_state=SEED)
        return along(compiled, place, weights, chosen, settings, finished)


@attrs.frozen(eq=False)
class Work:
    """Models with their grids (n_models, n_weights), the folds, and how fits are made and judged.

    ``path`` is one's own, or None for certified fits; ``problems`` hold all data, ``places`` say
    which term of each model has the weights. ``criteria`` are by their names, and the first one
    decides.
    """

    problems: Sequence[Problem]
    places: tuple[int, ...]
    grids: Array
    folds: Sequence[Fold]
    criteria: Mapping[str, Criterion]
    path: PathOf | None
    backend: BackendLike
    budget: Budget
    patience: int | None
    effects_weight: float | None

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_models, n_weights, n_folds)."""
        return len(self.problems), self.grids.shape[1], len(self.folds)

    def side_by_side(self, jobs: int) -> bool:
        """Whether a model's paths are walked together, to end at one weight on all folds.

        So patience has it, unless there are more processes than models.
        """
        return self.patience is not None and jobs <= len(self.problems)

    def parts(self, side_by_side: bool) -> list[Part]:
        """The units of work in their order.

        Fold by fold, so that an interruption leaves folds that all models have completed, or each
        with all folds of a model.
        """
        n_models, _, n_folds = self.shape
        if side_by_side:
            return [(model, tuple(range(n_folds))) for model in range(n_models)]
        return [(model, (fold,)) for fold in range(n_folds) for model in range(n_models)]

    def walk(self, model: int, checkpoint: str | None) -> PathOf:
        """The path of a model on one fold."""
        if self.path is not None:
            return self.path
        return CertifiedPath(
            self.places[model], self.backend, self.budget, self.effects_weight, checkpoint
        )

    def task(self, part: Part, files: Sequence[str | None]) -> Callable[[], Scored]:
        """A part as a function without arguments, with a file for the fits of each fold."""
        model, folds = part
        walks = [
            (self.walk(model, file), self.folds[fold])
            for fold, file in zip(folds, files, strict=True)
        ]
        return partial(
            score,
            self.problems[model].model,
            walks,
            self.grids[model],
            list(self.criteria.values()),
            self.patience if len(folds) == len(self.folds) else None,
            f"model {model}, fold {' or '.join(map(str, folds))}",
        )
