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
FUNCTIONS = {
    "sqrt": np.sqrt,
    "abs": np.abs,
    "log1p": np.log1p,
    "expm1": np.expm1,
    "numpy": np,
}
# Modules and contrasts whose members formulas may call.
MODULES = ("np", "numpy", "contr")
# Names of columns in backticks and texts in quotes, which stay as they are.
QUOTED = re.compile(r"""(`[^`]*`|'[^']*'|"[^"]*")""")
# A power of one column, or of one call with what is in its parentheses; and such a call without.
CALL = r"[^\W\d][\w.]*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)"
POWER = re.compile(rf"({CALL}|[^\W\d]\w*|`[^`]*`)\s*\*\*\s*(-?\d+(?:\.\d+)?)|{CALL}")


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
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    modules = [node.value for node in nodes if isinstance(node, ast.Attribute)]
    for node in modules:
        if not isinstance(node, ast.Name) or node.id not in MODULES:
            raise ModelError(
                f"term {expression!r} of the formula has a method or an attribute; call a"
                " function, as in np.sqrt(x), or make the term a column"
            )
    check_functions(expression, [node.id for node in called if isinstance(node, ast.Name)])
    others = {id(node) for node in [*called, *modules]}
    names = [node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in others]
    return [*names, *re.findall("`([^`]*)`", expression)]


def check_functions(expression: str, names: Sequence[str]) -> None:
    """A ``ModelError`` where a formula calls a function that is not known."""
    from formulaic.transforms import TRANSFORMS

    functions = sorted({*TRANSFORMS, *FUNCTIONS} - {*MODULES})
    for name in names:
        if name == "offset":
            raise ModelError(
                f"term {expression!r}: formulas have no offset; make the outcome less the offset a"
                " column before the table is completed"
            )
        if name not in functions:
            raise ModelError(
                f"term {expression!r} calls {name!r}, which is not known; known are"
                f" {', '.join(functions)}, and functions of numpy, as in np.sin(x)"
            )


def parsed(text: str) -> Any:
    """Return a formula of formulaic: its two sides, or a list of terms.

    ``x**2`` of one column or one function is its square, ``I(x**2)``, where the language of
    formulas reads x; ``^`` is ``**``, also within ``I(...)``, and ``factor`` is ``C``, as in R.
    ``Q("a b")`` is a column, as `a b` in backticks is.
    """
    try:
        import formulaic
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'formulas need {error.name}; get it with pip install "mcframe[formula]"',
            name=error.name,
        ) from error
    backticked = re.sub(r"""\bQ\((['"])(.*?)\1\)""", r"`\2`", text)
    parts = QUOTED.split(backticked)
    parts[::2] = [
        re.sub(r"\b(as\.)?factor\(", "C(", part.replace("^", "**")) for part in parts[::2]
    ]
    powers = POWER.sub(lambda m: f"I({m[1]}**{m[2]})" if m[1] else m[0], "".join(parts))
    dots = [part for part in parts[::2] if re.search(r"(?<![\w.)])\.(?!\w)", part)]
    if dots:
        raise ModelError(
            f"formula {text!r}: '.' would be all other columns; name those that you mean, as in"
            " 'y ~ x1 + x2'"
        )
    try:
        return formulaic.Formula(powers)
    except (formulaic.errors.FormulaicError, SyntaxError, ValueError, TypeError) as error:
        why = str(error).splitlines()[0].rstrip(".")
        raise ModelError(
            f"formula {text!r} cannot be read: {why}. Write terms as in"
            " 'x1 + I(x1**2) + x1:x2', and Q('a b') for a column of that name"
        ) from None


def terms_of(terms: Any) -> tuple[FormulaTerm, ...]:
    """Return the terms of a side of a formula but the intercept, each once."""
    import formulaic

    if not isinstance(terms, formulaic.SimpleFormula):
        raise ModelError("the formula has parts that are separated by '|'; give one part")
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
                f"formula {formula!r}: the outcome {outcome.strip()} has to be a column; make it"
                " one before the table is completed, as by frame.assign(...)"
            )
        terms, name = terms_of(sides.rhs), left[0].columns[0]
        intercept = any(str(term) == "1" for term in sides.rhs)
        if not terms and not intercept:
            raise ModelError(f"formula {formula!r} has no terms; '1' is the intercept")
        if any(name in term.columns for term in terms):
            raise ModelError(f"formula {formula!r}: the outcome {name!r} stands in a term, too")
        return cls(name, terms, intercept)

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
        categories = [
            repr(name) for name in columns if isinstance(frame[name].dtype, pd.CategoricalDtype)
        ]
        hint = (
            f"; of categories, as {', '.join(categories)}, take the values, as in C(name) or"
            " I(name == 'value')"
        )
        raise ModelError(
            f"the terms {', '.join(map(str, terms))} cannot be computed:"
            f" {str(error).splitlines()[0]}{hint * bool(categories)}"
        ) from None
    names, numbers = list(map(str, matrix.columns)), np.asarray(matrix, dtype=np.float64)
    return names, numbers, matrix.model_spec


def refuse_infinite(names: Sequence[str], numbers: Array) -> None:
    """Raise a ``DataError`` where a term (n x p) is not finite in every row."""
    finite = np.all(np.isfinite(numbers), axis=0)
    if not np.all(finite):
        raise DataError(
            f"term {names[int(np.argmin(finite))]!r} is not finite in every row, as is the"
            " logarithm of a number that is not above 0; take another term, or declare that all"
            " values of its column are above 0 by bounds in types=, such as ('number', 0.1, None)"
        )


def in_formulas(column: Column) -> Any:
    """Return a column without gaps as a formula reads it: numbers, or categories of pandas.

    Dates are days since 1970, truth values 0 and 1; categories are in their order, or sorted.
    """
    import pandas as pd

    name = str(plain(column.name))
    if column.missing.any():
        raise DataError(
            f"column {name!r} has missing values; give tables that completed.draws(m) of"
            " mc.complete(frame) has filled, and leave out columns that are set aside there"
        )
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
