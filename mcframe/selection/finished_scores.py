"""The scores of a cross-validation that are finished, in a file."""

from pathlib import Path

import attrs
import numpy as np

from mcframe.numerics.digest import digest_of
from mcframe.selection.finished_fits import digest_of_model, digest_of_weights, texts_of
from mcframe.selection.scoring import Scored
from mcframe.selection.work import Part, Work
from mcframe.storage import Archive, Entry

__all__ = ["FinishedScores"]


@attrs.frozen
class FinishedScores:
    """The scores of the finished paths of a cross-validation in a file.

    While a certified path is walked its fits are kept in a file of its own beside that one.
    """

    archive: Archive

    @classmethod
    def of(cls, checkpoint: object, work: Work) -> "FinishedScores":
        """Return the scores of a cross-validation; a ``DataError`` for the file of another."""
        pairs = zip(work.problems, work.places, strict=True)
        identity = {
            "models": digest_of([digest_of_model(problem, place) for problem, place in pairs]),
            "data": work.problems[0].digest_of_data,
            "weights": digest_of_weights(work.grids),
            "folds": digest_of([fold.digest for fold in work.folds]),
            "criterion": digest_of(dict(work.criteria)),
            "path": digest_of(work.path),
            "backend": digest_of(work.backend),
            **texts_of(work.budget),
            "patience": str(work.patience),
            "effects_weight": str(work.effects_weight),
        }
        return cls(Archive.at_path(checkpoint, "cross-validation", identity))

    def file_of(self, model: int, fold: int) -> str:
        """Return the file of the fits of a model on a fold while their path is walked."""
        return f"{self.archive.path}.model{model}.fold{fold}"

    def find(self, part: Part) -> Scored | None:
        """The scores of a part, if its paths are finished: walked together or each apart."""
        model, folds = part
        if any(entry_name(model, fold) not in self.archive for fold in folds):
            return None
        entries = [self.archive.read(entry_name(model, fold)) for fold in folds]
        return Scored(
            scores=np.concatenate([entry.arrays["scores"] for entry in entries], axis=2),
            reached=min(entry.facts["reached"] for entry in entries),
            largest_gap=max(entry.facts["largest_gap"] for entry in entries),
            ended=True,
        )

    def keep(self, part: Part, found: Scored) -> None:
        """Write the scores of paths that came to their end, in the place of their fits."""
        if not found.ended:
            return
        model, folds = part
        facts = {"reached": found.reached, "largest_gap": found.largest_gap}
        for place, fold in enumerate(folds):
            scores = found.scores[:, :, place : place + 1]
            self.archive.add(entry_name(model, fold), Entry({"scores": scores}, facts))
            Archive(Path(self.file_of(model, fold))).remove()


def entry_name(model: int, fold: int) -> str:
    """How a path is called in the file."""
    return f"model{model}.fold{fold}"
