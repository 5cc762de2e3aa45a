"""The fits of a path that are finished, in a file."""

import attrs

from mcframe.answer import Fit
from mcframe.backends import FROM_OUTSIDE, Backend, Budget
from mcframe.contracts.arrays import Array
from mcframe.model import Problem
from mcframe.numerics.digest import digest_of
from mcframe.storage import Archive, fit_from_entry, fit_to_entry

__all__ = ["FinishedFits", "digest_of_model", "digest_of_weights", "texts_of"]


@attrs.frozen
class FinishedFits:
    """The fits of one path in a file, by their positions among its weights."""

    archive: Archive

    @classmethod
    def of(
        cls,
        checkpoint: object,
        problem: Problem,
        place: int,
        weights: Array,
        backend: Backend,
        budget: Budget,
        random_state: int | None,
    ) -> "FinishedFits":
        """Return the finished fits of a path; a ``DataError`` for the file of another one."""
        identity = {
            "model": digest_of_model(problem, place),
            "data": problem.digest_of_data,
            "weights": digest_of_weights(weights),
            "backend": digest_of(backend),
            **texts_of(budget),
            "random_state": str(random_state),
        }
        return cls(Archive.at_path(checkpoint, "path", identity))

    def find(self, position: int, problem: Problem) -> Fit | None:
        """The fit of a problem at that position, if it is finished."""
        if str(position) not in self.archive:
            return None
        return fit_from_entry(problem, self.archive.read(str(position)))

    def keep(self, position: int, fit: Fit) -> None:
        """Write a fit, unless it was interrupted: then it is to be made again."""
        if fit.message != FROM_OUTSIDE:
            self.archive.add(str(position), fit_to_entry(fit))


def digest_of_model(problem: Problem, place: int) -> str:
    """A digest of a model, but for the weight of the term that a path is about."""
    return digest_of(problem.with_weight(place, 1.0).model)


def digest_of_weights(weights: Array) -> str:
    """A digest of weights to 9 digits: more may depend on how many threads computed them."""
    return digest_of([f"{weight:.9g}" for weight in weights.ravel()])


def texts_of(budget: Budget) -> dict[str, str]:
    """The limits of each fit."""
    return {name: str(value) for name, value in attrs.asdict(budget).items()}
