"""Stores of rows that are not all in this process, and what such a store has to answer.

A verb asks ``store_of(data)`` before it binds a model, and a store that has the ability of that
verb computes where the rows are: ``FittingStore`` of ``mcframe.fitting.fitting_store`` for ``fit``
and ``explain``, ``EstimatingStore`` of ``mcframe.posterior.estimation`` for ``posterior``. The
package of a store calls ``register``, and an entry point imports that package.
"""

from typing import Protocol

from mcframe.contracts.errors import DataError


class RowStore(Protocol):
    """A form of data whose rows are not all in this process."""

    def holds(self, data: object) -> bool:
        """True if the data of a model, as a verb is given them, are of this form."""
        ...

    def refusal(self, values: object) -> str | None:
        """Why values of this form are not taken where all rows are needed, and what to give.

        A sentence, or None for values of other forms.
        """
        ...


STORES: list[RowStore] = []


def register(store: RowStore) -> None:
    """Add a form of data to those that verbs ask for."""
    STORES.append(store)


def store_of(data: object) -> RowStore | None:
    """The store that holds the rows of these data; None of data in this process."""
    return next((store for store in STORES if store.holds(data)), None)


def refuse_stores(values: object, place: str = "") -> None:
    """Raise a ``DataError`` where rows are in a store, and all are needed in this process."""
    for store in STORES:
        reason = store.refusal(values)
        if reason is not None:
            raise DataError(f"{place}{reason}")
