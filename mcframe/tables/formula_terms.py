"""Formulas of regressions, and their terms as columns of numbers of a completed table."""

import ast
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import narwhals.stable.v2 as nw
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import DataError, ModelError
from mcframe.contracts.validators import plain
from mcframe.tables.columns import Column, read_columns, read_frame
from mcframe.tables.gaps import meant_column

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "log": np.log,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
}
OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
}


@attrs.frozen
class Factor:
    """A part of a product: a column by itself, or a formula of numbers such as ``x1**2``.

    Attributes
    ----------
    text : str
        As it is printed.
    columns : tuple of str
        The columns that it reads.
    expression : ast.expr or None
        None of a column by itself, which may hold labels or categories.
    """

    text: str
    columns: tuple[str, ...]
    expression: Any = attrs.field(default=None, eq=False)


@attrs.frozen
class FormulaTerm:
    """A product of factors: a column of the design, or several with categories."""

    factors: tuple[Factor, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return tuple(dict.fromkeys(itertools.chain(*(factor.columns for factor in self.factors))))

    @property
    def is_column(self) -> bool:
        """True of one column by itself."""
        return len(self.factors) == 1 and self.factors[0].expression is None

    def __str__(self) -> str:
        return ":".join(factor.text for factor in self.factors)


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
        [left] = terms_of(outcome)[0]
        if not left.is_column:
            raise ModelError(f"formula {formula!r}: the outcome {left} has to be a column")
        terms, intercept = terms_of(right)
        return cls(left.columns[0], tuple(terms), intercept)

    @classmethod
    def of_terms(cls, terms: "str | Sequence[str]") -> "Formula":
        """Read a formula, or a list of terms such as ``["x1**2", "x1:x2"]``."""
        if isinstance(terms, str) and "~" in terms:
            return cls.of(terms)
        texts = [terms] if isinstance(terms, str) else list(terms)
        wrong = [text for text in texts if not isinstance(text, str)]
        if wrong or not texts:
            raise ModelError(
                f"terms={terms!r} was given; texts such as ['x1**2', 'x1:x2'], or a formula such"
                " as 'y ~ x1 + I(x1**2)', are needed"
            )
        read = itertools.chain(*(terms_of(text)[0] for text in texts))
        return cls(None, tuple(dict.fromkeys(read)))

    @property
    def further_terms(self) -> tuple[FormulaTerm, ...]:
        """The terms that are no column by itself."""
        return tuple(term for term in self.terms if not term.is_column)

    def check(self, names: Sequence[Any]) -> None:
        """A ``ModelError`` where a term names no column."""
        outcome = () if self.outcome is None else (self.outcome,)
        for name in (*outcome, *itertools.chain(*(term.columns for term in self.terms))):
            if name not in names:
                hint = meant_column(name, list(names))
                raise ModelError(f"the formula names {name!r}, which is no column; {hint}")


def terms_of(text: str) -> tuple[list[FormulaTerm], bool]:
    """Return the terms of a sum, and whether it has an intercept."""
    try:
        # A product of columns has a sign that Python's grammar has as well.
        body = ast.parse(text.strip().replace(":", "@"), mode="eval").body
    except SyntaxError as error:
        raise ModelError(
            f"formula {text!r} cannot be read: {error.msg}; write terms as in"
            " 'x1 + I(x1**2) + x1:x2', and Q('a b') for a column of that name"
        ) from None
    terms, intercept = list[FormulaTerm](), True
    for sign, part in summands(body, 1):
        if isinstance(part, ast.Constant) and part.value in (0, 1):
            intercept = (part.value == 1) == (sign > 0)
        elif sign < 0:
            raise ModelError(f"formula {text!r}: only an intercept is taken away, by '- 1'")
        else:
            terms += crossed(part, text)
    return list(dict.fromkeys(terms)), intercept


def summands(node: ast.expr, sign: int) -> list[tuple[int, ast.expr]]:
    """Return the parts of a sum with their signs."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        other = sign if isinstance(node.op, ast.Add) else -sign
        return [*summands(node.left, sign), *summands(node.right, other)]
    return [(sign, node)]


def crossed(node: ast.expr, text: str) -> list[FormulaTerm]:
    """Return the terms of a product: ``a * b`` is ``a + b + a:b``."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult):
        left, right = crossed(node.left, text), crossed(node.right, text)
        products = [
            FormulaTerm(tuple(dict.fromkeys((*a.factors, *b.factors))))
            for a in left
            for b in right
        ]
        return products if isinstance(node.op, ast.MatMult) else [*left, *right, *products]
    return [FormulaTerm((factor_of(node, text),))]


def factor_of(node: ast.expr, text: str) -> Factor:
    """Return a factor; I(...) is what it holds, and Q('a b') the column of that name."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "I" and len(node.args) == 1:
        return factor_of(node.args[0], text)
    name = column_name(node)
    if name is not None:
        return Factor(name, (name,))
    columns = columns_of(node, text)
    if not columns:
        raise ModelError(f"formula {text!r}: {ast.unparse(node)} names no column")
    return Factor(ast.unparse(node), columns, node)


def column_name(node: ast.expr) -> str | None:
    """Return the column that an expression is by itself; None if it is none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Q", "C"):
        [argument] = node.args if len(node.args) == 1 else [None]
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            return argument.value
        return argument.id if isinstance(argument, ast.Name) else None
    return None


def columns_of(node: ast.expr, text: str) -> tuple[str, ...]:
    """Return the columns that an expression of numbers reads, or a ``ModelError``."""
    name = column_name(node)
    if name is not None:
        return (name,)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return ()
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        parts = columns_of(node.left, text), columns_of(node.right, text)
        return tuple(dict.fromkeys(itertools.chain(*parts)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return columns_of(node.operand, text)
    if isinstance(node, ast.Call) and function_name(node) in FUNCTIONS and len(node.args) == 1:
        return columns_of(node.args[0], text)
    raise ModelError(
        f"formula {text!r}: {ast.unparse(node).replace('@', ':')} is not known; terms have"
        f" columns, numbers, + - * / ** in I(...), and {', '.join(FUNCTIONS)}"
    )


def function_name(node: ast.Call) -> str:
    """Return the name of a function, also of ``np.log``."""
    return getattr(node.func, "attr", "") or getattr(node.func, "id", "")


def evaluated(node: ast.expr, numbers: Callable[[str], Array]) -> Any:
    """Return the value of an expression; ``numbers`` are those of a column."""
    name = column_name(node)
    if name is not None:
        return numbers(name)
    if isinstance(node, ast.Constant):
        return float(str(node.value))
    if isinstance(node, ast.BinOp):
        sides = evaluated(node.left, numbers), evaluated(node.right, numbers)
        return OPERATORS[type(node.op)](*sides)
    if isinstance(node, ast.UnaryOp):
        return -evaluated(node.operand, numbers)
    assert isinstance(node, ast.Call)  # of ``columns_of``
    return FUNCTIONS[function_name(node)](evaluated(node.args[0], numbers))


@attrs.frozen(eq=False)
class DesignColumns:
    """Columns of a table as numbers: those of categories are indicators of all but the first.

    Attributes
    ----------
    numbers : dict from column name to array (... x width)
    names : dict from column name to list of str
        What each of its numbers is called.
    labels : set of column names
        Those that hold truth values, text or categories.
    """

    numbers: Mapping[Any, Array]
    names: Mapping[Any, Sequence[str]]
    labels: frozenset[Any] = frozenset()

    def of_term(self, term: FormulaTerm) -> tuple[list[str], Array]:
        """Return the names and numbers (... x width) of a term."""
        with np.errstate(all="ignore"):
            parts = [self.of_factor(factor) for factor in term.factors]
        names = [":".join(one) for one in itertools.product(*(part[0] for part in parts))]
        values = parts[0][1]
        for _, others in parts[1:]:
            products = values[..., :, None] * others[..., None, :]
            width = products.shape[-2] * products.shape[-1]
            values = products.reshape(*products.shape[:-2], width)
        if not np.all(np.isfinite(values)):
            raise DataError(
                f"term {term} is not finite in every row, as is the logarithm of a number that is"
                " not above 0; take another term, or declare bounds of the column"
            )
        return names, values

    def of_factor(self, factor: Factor) -> tuple[Sequence[str], Array]:
        """Return the names and numbers of a factor."""
        if factor.expression is None:
            [name] = factor.columns
            return self.names[name], self.numbers[name]
        for name in factor.columns:
            if self.numbers[name].shape[-1] > 1:
                raise ModelError(
                    f"term {factor.text}: column {plain(name)!r} holds categories; take it by"
                    " itself, or in a product such as x:town"
                )
        values = evaluated(factor.expression, lambda name: self.numbers[name][..., 0])
        return [factor.text], np.asarray(values)[..., None]

    @classmethod
    def of_table(cls, table: Any, wanted: Sequence[Any]) -> "DesignColumns":
        """Return those of a completed table; categories in their order, or sorted."""
        columns = {
            column.name: column
            for column in read_columns(read_frame(table))
            if column.name in wanted
        }
        pairs = {name: numbers_of(column) for name, column in columns.items()}
        return cls(
            {name: pair[1] for name, pair in pairs.items()},
            {name: pair[0] for name, pair in pairs.items()},
            frozenset(
                name for name, column in columns.items() if column.form not in ("number", "date")
            ),
        )


def numbers_of(column: Column) -> tuple[list[str], Array]:
    """Return the names and numbers of a column without gaps (n x width)."""
    name = str(plain(column.name))
    if column.missing.any():
        raise DataError(f"column {name!r} has missing values; fill them, or leave the column out")
    if column.form in ("number", "boolean"):
        return [name], column.numbers[:, None]
    if column.form == "date":
        return [name], column.numbers[:, None] / 86_400e6
    levels = (
        list(column.series.cat.get_categories())
        if column.series.dtype in (nw.Categorical, nw.Enum)
        else list(column.distinct)
    )
    values = np.array(column.values, dtype=object)
    indicators = [(values == level).astype(np.float64) for level in levels[1:]]
    if not indicators:
        raise DataError(f"column {name!r} has a single value; leave it out")
    return [f"{name}[{plain(level)}]" for level in levels[1:]], np.column_stack(indicators)
