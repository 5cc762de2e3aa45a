"""Linear identities that hold in all complete rows of a table, to be suggested and not assumed."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import warn_caller
from mcframe.contracts.limits import MOST_LISTED
from mcframe.contracts.rounding import RESULT_ROUNDING
from mcframe.contracts.validators import counted, listed, plain
from mcframe.contracts.wording import wording
from mcframe.tables.coding import Numbers
from mcframe.tables.declared_column import DeclaredColumn
from mcframe.tables.relations import size_of

# Different complete rows that are needed: so many, and twice as many as there are columns. More
# rows than that and these are not looked at, and tables of more columns are not.
FEWEST_ROWS, MORE_ROWS, MOST_COLUMNS = 20, 200, 500
# The largest coefficient of an identity that is suggested.
LARGEST_COEFFICIENT = 3


def warn_of_identities(columns: Sequence[DeclaredColumn]) -> None:
    """A ``UserWarning`` of identities between columns of which some entries are missing."""
    texts = [text for text, missing in identities_among(columns) if missing][:MOST_LISTED]
    if texts:
        count = counted(len(texts), "equation")
        option = wording().either(
            python=f"relations={texts!r}",
            command=" ".join(f'--relation "{text}"' for text in texts),
        )
        none = wording().either(
            python="relations=[] says that they need not hold",
            command="else the table stays as it is",
        )
        warn_caller(
            f"{count} between columns of numbers hold in all rows in which these are observed, and"
            f" filled entries need not satisfy them: {listed([repr(text) for text in texts])};"
            f" {option} states them, {none}"
        )


def identities_among(columns: Sequence[DeclaredColumn]) -> Iterator[tuple[str, bool]]:
    """Texts of identities with small whole coefficients, and whether entries of them are missing.

    They are a basis of the null space of complete rows of columns of numbers, with a constant.
    """
    chosen = [
        column
        for column in columns
        if isinstance(column.coding, Numbers)
        and column.place is not None
        and column.column.form == "number"
    ]
    if not 2 <= len(chosen) <= MOST_COLUMNS:
        return
    # Columns with most gaps first, so that they are the ones that identities compute.
    chosen.sort(key=lambda column: -column.share_missing)
    numbers = np.column_stack([column.column.numbers for column in chosen])
    complete = numbers[np.isfinite(numbers).all(axis=1)]
    needed = FEWEST_ROWS + 2 * len(chosen)
    complete = complete[: needed + MORE_ROWS]
    if len(np.unique(complete, axis=0)) < needed:
        return
    sizes = np.array([*map(size_of, complete.T), 1.0])
    scaled = np.column_stack([complete, np.ones(len(complete))]) / sizes
    _, values, axes = np.linalg.svd(scaled, full_matrices=False)
    for vector in sparse_basis(axes[values <= RESULT_ROUNDING * values[0]], sizes):
        largest = np.max(np.abs(vector[:-1]))
        smallest = np.min(np.abs(vector[:-1][np.abs(vector[:-1]) > RESULT_ROUNDING * largest]))
        coefficients = vector[:-1] / smallest
        whole = np.rint(coefficients)
        if np.max(np.abs(coefficients - whole)) > 1e-6 or np.max(np.abs(whole)) > (
            LARGEST_COEFFICIENT
        ):
            continue
        places = np.flatnonzero(whole)
        differences = numbers[:, places] @ whole[places]
        constant = float(np.median(differences[np.isfinite(differences)]))
        size = np.abs(numbers[:, places]) @ np.abs(whole[places])
        if places.size < 2 or np.any(np.abs(differences - constant) > RESULT_ROUNDING * size):
            continue
        if abs(constant) <= RESULT_ROUNDING * np.nanmax(size):
            constant = 0.0
        missing = bool(np.isnan(numbers[:, places]).any())
        order = {column.name: k for k, column in enumerate(columns)}
        places = places[np.argsort([order[chosen[k].name] for k in places])]
        names = [chosen[place].name for place in places]
        yield identity_text(names, whole[places], constant), missing


def sparse_basis(vectors: Array, sizes: Array) -> Array:
    """A basis of the row space of vectors (r x p) over sizes (p,), with many zeros.

    By elimination, and then in pairs: fewer columns, or smaller coefficients.
    """
    vectors = vectors.copy()
    for row in range(len(vectors)):
        rest = np.abs(vectors[row:, :-1])
        column = int(np.argmax(np.max(rest, axis=0) > 1e-3))  # the first one that has a pivot
        pivot = row + int(np.argmax(rest[:, column]))
        vectors[[row, pivot]] = vectors[[pivot, row]]
        vectors[row] /= vectors[row, column]
        others = np.arange(len(vectors)) != row
        vectors[others] -= vectors[others, column, None] * vectors[row]
    vectors[np.abs(vectors) <= RESULT_ROUNDING] = 0.0
    for row, vector in enumerate(vectors):
        for other in np.delete(vectors, row, axis=0):
            for place in np.flatnonzero((vector != 0.0) & (other != 0.0)):
                sparser = vector - vector[place] / other[place] * other
                sparser[np.abs(sparser) <= RESULT_ROUNDING] = 0.0
                if not sparser[:-1].any():
                    continue
                if size_of_identity(sparser / sizes) < size_of_identity(vector / sizes):
                    vector[:] = sparser
    return vectors / sizes


def size_of_identity(vector: Array) -> tuple[int, float]:
    """The number of columns of an identity, and its largest coefficient over its least."""
    coefficients = np.abs(vector[:-1][vector[:-1] != 0.0])
    return coefficients.size, round(float(np.max(coefficients) / np.min(coefficients)), 6)


def identity_text(names: Sequence[Any], coefficients: Array, constant: float) -> str:
    """An identity as text, with a column on the left whose sign is the rarer one."""
    signs = np.sign(coefficients)
    rare = 1.0 if np.sum(signs > 0.0) <= np.sum(signs < 0.0) else -1.0
    if not np.any(signs == rare):
        rare = -rare
    left = int(np.flatnonzero(signs == rare)[np.argmin(np.abs(coefficients[signs == rare]))])
    text = ""
    for k, name in enumerate(names):
        if k != left:
            text = with_term(text, -coefficients[k] * rare, written(name))
    if constant:
        text = with_term(text, constant * rare, "")
    factor = abs(coefficients[left])
    return f"{'' if factor == 1.0 else f'{factor:g} * '}{written(names[left])} = {text}"


def with_term(text: str, factor: float, name: str) -> str:
    """A sum with one more term."""
    sign = "-" if factor < 0.0 else "+"
    size = f"{abs(factor):.12g}"
    term = size if not name else name if size == "1" else f"{size} * {name}"
    if not text:
        return f"-{term}" if sign == "-" else term
    return f"{text} {sign} {term}"


def written(name: Any) -> str:
    """The name of a column in an equation, in backticks where it is no identifier."""
    text = str(plain(name))
    return text if text.isidentifier() else f"`{text}`"
