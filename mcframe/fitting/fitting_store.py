"""What a store of rows needs for ``fit`` and ``explain``."""

import os
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from mcframe.backends import Eligibility, Settings
from mcframe.contracts.row_stores import RowStore
from mcframe.fitting.fit_answer import Fit
from mcframe.model import Model


class StoreExplanation(Protocol):
    """The answer of ``explain`` for a table whose rows are in a store."""

    @property
    def eligibilities(self) -> Sequence[Eligibility]:
        """Which backends can run it, and at which cost."""
        ...

    @property
    def chosen(self) -> str | None:
        """The backend that ``auto`` takes; None if none can run."""
        ...

    @property
    def why(self) -> str:
        """The sentence that says why."""
        ...


@runtime_checkable
class FittingStore(RowStore, Protocol):
    """A store of rows that are fitted where they are."""

    def fit(
        self,
        model: Model,
        data: object,
        settings: Settings,
        *,
        backend: object,
        start: Fit | None,
        checkpoint: str | os.PathLike[str] | None,
    ) -> Fit:
        """The fit of a model to the rows; options are those of ``mcframe.fit``, checked."""
        ...

    def explain(self, model: Model, data: object) -> StoreExplanation:
        """The cost and the choice of a fit of these rows."""
        ...
