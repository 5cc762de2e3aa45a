"""Formulas of regressions, read by formulaic, and their terms as columns of numbers."""

import ast
import re
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import plain
from mcframe.tables.columns import Column
from mcframe.tables.gaps import meant_column

# What formulas may call beside the functions of formulaic.
FUNCTIONS = {"sqrt": np.sqrt, "abs": np.abs}
# A call with what is in its parentheses, or a power of one column outside of all calls.
CALL = r"\w\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
POWER = re.compile(rf"({CALL})|([^\W\d]\w*|`[^`]*`)\s*(?:\*\*|\^)\s*(\d+)")


@attrs.frozen
class FormulaTerm:
    """A product of columns and functions of columns.

    Attributes
    ----------
    term : formulaic.parser.types.Term
    columns : tuple of str
        The columns that it reads.
    is_column : bool
        True of one column by itself.
    """

    term: Any
    columns: tuple[str, ...]
    is_column: bool

    @classmethod
    def of(cls, term: Any) -> "FormulaTerm":
        """A term as formulaic has read it."""
        columns = list[str]()
        for factor in term.factors:
            by_itself = factor.eval_method.value == "lookup"
            columns += [factor.expr] if by_itself else columns_of(factor.expr)
        is_column = len(columns) == len(term.factors) == 1 and (
            by_itself or is_category(str(term))
        )
        return cls(term, tuple(dict.fromkeys(columns)), is_column)

    def __str__(self) -> str:
        return str(self.term)


def is_category(text: str) -> bool:
    """Return whether a term is the values of a column, whatever their contrasts."""
    return text.startswith("C(")


def columns_of(expression: str) -> list[str]:
    """Return the columns that an expression of Python reads; others than names are in `...`."""
    try:
        tree = ast.parse(re.sub("`[^`]*`", "0", expression), mode="eval")
    except SyntaxError as error:
        raise ModelError(f"term {expression!r} cannot be read: {error.msg}") from None
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    modules = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    names = [
        node.id
        for node in nodes
        if isinstance(node, ast.Name) and id(node) not in called | modules
    ]
    return [*names, *re.findall("`([^`]*)`", expression)]


def parsed(text: str) -> Any:
    """Return a formula of formulaic: its two sides, or a list of terms.

    ``x**2`` of one column is its square, ``I(x**2)``, where the language of formulas reads x.
    ``Q("a b")`` is a column, as `a b` in backticks is.
    """
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'formulas need {error.name}; get it with pip install "mcframe[formula]"',
            name=error.name,
        ) from error
    quoted = re.sub(r"""\bQ\((['"])(.*?)\1\)""", r"`\2`", text)
    powers = POWER.sub(lambda m: m[0] if m[1] else f"I({m[2]}**{m[3]})", quoted)
    try:
        return formulaic.Formula(powers)
    except formulaic.errors.FormulaicError as error:
        why = str(error).splitlines()[0]
        raise ModelError(
            f"formula {text!r} cannot be read: {why} Write terms as in"
            " 'x1 + I(x1**2) + x1:x2', and Q('a b') for a column of that name"
        ) from None


def terms_of(terms: Any) -> tuple[FormulaTerm, ...]:
    """Return the terms of a side of a formula but the intercept, each once."""
    read = [FormulaTerm.of(term) for term in terms if str(term) not in ("0", "1")]
    for term in read:
        if not term.columns:
            raise ModelError(f"term {str(term)!r} of the formula names no column")
    return tuple(dict.fromkeys(read))


@attrs.frozen
class Formula:
    """``outcome ~ terms``, with an intercept unless ``- 1`` or ``+ 0`` takes it away.

    Attributes
    ----------
    outcome : str or None
        None of a list of terms.
    terms : tuple of FormulaTerm
    intercept : bool
    """

    outcome: str | None
    terms: tuple[FormulaTerm, ...]
    intercept: bool = True

    @classmethod
    def of(cls, formula: str) -> "Formula":
        """Read a formula, such as ``"y ~ x1 + I(x1**2) + x1:x2"``."""
        outcome, tilde, right = formula.partition("~")
        if not tilde or not outcome.strip() or not right.strip():
            raise ModelError(
                f"formula {formula!r}: an outcome, '~' and terms are needed, as in"
                " 'y ~ x1 + I(x1**2) + x1:x2'"
            )
        sides = parsed(formula)
        left = terms_of(sides.lhs)
        if len(left) != 1 or not left[0].is_column or is_category(str(left[0])):
            raise ModelError(
                f"formula {formula!r}: the outcome {outcome.strip()} has to be a column"
            )
        intercept = any(str(term) == "1" for term in sides.rhs)
        return cls(left[0].columns[0], terms_of(sides.rhs), intercept)

    @classmethod
    def of_terms(cls, terms: "str | Sequence[str]") -> "Formula":
        """Read a formula, or a list of terms such as ``["x1**2", "x1:x2"]``."""
        if isinstance(terms, str) and "~" in terms:
            return cls.of(terms)
        texts = [terms] if isinstance(terms, str) else list(terms)
        wrong = [text for text in texts if not isinstance(text, str) or not text.strip()]
        if wrong or not texts:
            raise ModelError(
                f"terms={terms!r} was given; texts such as ['x1**2', 'x1:x2'], or a formula such"
                " as 'y ~ x1 + I(x1**2)', are needed"
            )
        read = [term for text in texts for term in terms_of(parsed(text))]
        return cls(None, tuple(dict.fromkeys(read)))

    @property
    def further_terms(self) -> tuple[FormulaTerm, ...]:
        """The terms that are no column by itself."""
        return tuple(term for term in self.terms if not term.is_column)

    def check(self, names: Sequence[Any]) -> None:
        """A ``ModelError`` where a term names no column."""
        outcome = () if self.outcome is None else (self.outcome,)
        for name in (*outcome, *(name for term in self.terms for name in term.columns)):
            if name not in names:
                hint = meant_column(name, list(names))
                raise ModelError(f"the formula names {name!r}, which is no column; {hint}")


def design_of(
    terms: Sequence[FormulaTerm],
    columns: Mapping[Any, Any],
    spec: Any = None,
    intercept: bool = False,
) -> tuple[list[str], Array, Any]:
    """Return the names and numbers (n x p) of terms, and how formulaic has made them.

    Parameters
    ----------
    terms : sequence of FormulaTerm
    columns : dict from column name to array or categories of pandas (n,)
    spec : formulaic.ModelSpec, optional
        Of an earlier design of these terms, whose centres, knots and categories it has.
    intercept : bool
        True: the first column is 1. It also decides how many indicators a category has.
    """
    import formulaic
    import pandas as pd

    frame = pd.DataFrame(dict(columns))
    if spec is None:
        ones = ["1"] if intercept else []
        spec = formulaic.Formula([*ones, *(term.term for term in terms)], _ordering="none")
    try:
        with np.errstate(all="ignore"):
            matrix = spec.get_model_matrix(frame, context=FUNCTIONS, na_action="ignore")
    except formulaic.errors.FormulaicError as error:
        raise ModelError(
            f"the terms {', '.join(map(str, terms))} cannot be computed:"
            f" {str(error).splitlines()[0]}"
        ) from None
    names, numbers = list(map(str, matrix.columns)), np.asarray(matrix, dtype=np.float64)
    finite = np.all(np.isfinite(numbers), axis=0)
    if not np.all(finite):
        raise DataError(
            f"term {names[int(np.argmin(finite))]} is not finite in every row, as is the logarithm"
            " of a number that is not above 0; take another term, or declare bounds of the column"
        )
    return names, numbers, matrix.model_spec


def in_formulas(column: Column) -> Any:
    """Return a column without gaps as a formula reads it: numbers, or categories of pandas.

    Dates are days since 1970, truth values 0 and 1; categories are in their order, or sorted.
    """
    import pandas as pd

    name = str(plain(column.name))
    if column.missing.any():
        raise DataError(f"column {name!r} has missing values; fill them, or leave the column out")
    if column.form in ("number", "boolean"):
        return column.numbers
    if column.form == "date":
        return column.numbers / 86_400e6
    levels = (
        list(column.series.cat.get_categories())
        if column.series.dtype in (nw.Categorical, nw.Enum)
        else list(column.distinct)
    )
    if len(levels) < 2:
        raise DataError(f"column {name!r} has a single value; leave it out")
    return pd.Categorical(column.values, categories=levels)
