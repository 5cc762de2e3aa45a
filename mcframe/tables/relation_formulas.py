"""Equations between columns of a table, read without running any of their text."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from mcframe.contracts.arrays import Array
from mcframe.contracts.errors import ModelError
from mcframe.contracts.validators import meant, plain
from mcframe.tables.formula_terms import MODULES, QUOTED
from mcframe.tables.gaps import meant_column

# The functions of one number that an equation may call.
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "abs": np.abs,
    "cos": np.cos,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "sin": np.sin,
    "sqrt": np.sqrt,
}
OPERATIONS: dict[type[ast.AST], Callable[..., Array]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.UAdd: np.positive,
    ast.USub: np.negative,
}


@attrs.frozen
class LinearSum:
    """``sum(coefficients[name] * name) + constant``."""

    coefficients: Mapping[Any, float]
    constant: float

    def plus(self, other: "LinearSum", sign: float) -> "LinearSum":
        """The sum with another one, or the difference."""
        names = dict.fromkeys([*self.coefficients, *other.coefficients])
        coefficients = {
            name: self.coefficients.get(name, 0.0) + sign * other.coefficients.get(name, 0.0)
            for name in names
        }
        return LinearSum(coefficients, self.constant + sign * other.constant)

    def times(self, factor: float) -> "LinearSum":
        """The sum times a number."""
        coefficients = {name: factor * value for name, value in self.coefficients.items()}
        return LinearSum(coefficients, factor * self.constant)


@attrs.frozen
class Expression:
    """One side of an equation.

    Attributes
    ----------
    node : ast.expr
        Of allowed operations, functions and finite numbers alone.
    names : dict from identifier in the node to column name
    """

    node: ast.expr
    names: Mapping[str, Any]

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns that it reads, in the order in which they stand there."""
        nodes = sorted(
            (node for node in ast.walk(self.node) if isinstance(node, ast.Name)),
            key=lambda node: node.col_offset,
        )
        return tuple(dict.fromkeys(self.names[node.id] for node in nodes if node.id in self.names))

    def values(self, columns: Mapping[Any, Array]) -> Array:
        """The expression at numbers of its columns, not finite where it has no value."""

        def value(node: ast.expr) -> Array:
            match node:
                case ast.Constant(value=number):
                    return np.asarray(float(number))  # type: ignore[arg-type]
                case ast.Name(id=name):
                    return columns[self.names[name]]
                case ast.BinOp(left=left, op=op, right=right):
                    return OPERATIONS[type(op)](value(left), value(right))
                case ast.UnaryOp(op=op, operand=operand):
                    return OPERATIONS[type(op)](value(operand))
                case ast.Call(func=function, args=[argument]):
                    return FUNCTIONS[name_of(function)](value(argument))
            raise AssertionError(ast.dump(node))  # of a node that has been checked

        with np.errstate(all="ignore"):
            return np.asarray(value(self.node), dtype=np.float64)

    def linear(self) -> LinearSum | None:
        """The expression as a linear one; None if it is none."""

        def linear_sum(node: ast.expr) -> LinearSum | None:
            if not Expression(node, self.names).columns:
                return LinearSum({}, float(Expression(node, self.names).values({})))
            match node:
                case ast.Name(id=name):
                    return LinearSum({self.names[name]: 1.0}, 0.0)
                case ast.UnaryOp(op=op, operand=operand):
                    inner = linear_sum(operand)
                    sign = -1.0 if isinstance(op, ast.USub) else 1.0
                    return None if inner is None else inner.times(sign)
                case ast.BinOp(left=left, op=op, right=right):
                    first, second = linear_sum(left), linear_sum(right)
                    if first is None or second is None:
                        return None
                    if isinstance(op, ast.Add | ast.Sub):
                        return first.plus(second, 1.0 if isinstance(op, ast.Add) else -1.0)
                    if isinstance(op, ast.Mult) and not first.coefficients:
                        return second.times(first.constant)
                    if isinstance(op, ast.Mult) and not second.coefficients:
                        return first.times(second.constant)
                    if isinstance(op, ast.Div) and not second.coefficients and second.constant:
                        return first.times(1.0 / second.constant)
                    if isinstance(op, ast.Pow) and second == LinearSum({}, 1.0):
                        return first
            return None

        return linear_sum(self.node)


@attrs.frozen
class Equation:
    """Two sides of which columns are read, and what the difference is if both are linear.

    Attributes
    ----------
    text : str
        As it was given.
    left, right : Expression
    """

    text: str
    left: Expression
    right: Expression

    @property
    def columns(self) -> tuple[Any, ...]:
        """The columns of both sides."""
        return tuple(dict.fromkeys([*self.left.columns, *self.right.columns]))

    @property
    def computes_column(self) -> bool:
        """True if the left side is one column by itself."""
        return isinstance(self.left.node, ast.Name)

    @property
    def linear(self) -> LinearSum | None:
        """Left less right side, without columns whose coefficients are 0; None if not linear."""
        left, right = self.left.linear(), self.right.linear()
        if left is None or right is None:
            return None
        difference = left.plus(right, -1.0)
        coefficients = {name: a for name, a in difference.coefficients.items() if a != 0.0}
        return LinearSum(coefficients, difference.constant)

    @classmethod
    def of(cls, text: str, names: Sequence[Any]) -> "Equation":
        """Read an equation between columns of these names.

        Raises
        ------
        ModelError
            If it cannot be read, names no column, or one on both sides, or is no equation of
            numbers: see ``mc.relation``.
        """
        quoted: dict[str, str] = {}
        parts = QUOTED.split(text)
        for k in range(1, len(parts), 2):
            if not parts[k].startswith("`"):
                raise refusal(text, f"{parts[k]} is text", "compare numbers alone")
            quoted[f"_quoted_{k}"] = parts[k][1:-1]
            parts[k] = f" _quoted_{k} "
        parts[::2] = [part.replace("^", "**") for part in parts[::2]]
        sides = "".join(parts).split("=")
        if len(sides) != 2 or not all(side.strip() for side in sides):
            raise refusal(
                text, "there is not one '=' between two sides", "write 'total = food + rent'"
            )
        by_text = {str(plain(name)): name for name in names}
        expressions = []
        for side in sides:
            node = parsed(text, side)
            identifiers = {
                part.id: quoted.get(part.id, part.id) for part in variables_of(text, node)
            }
            for shown in identifiers.values():
                if shown not in by_text:
                    hint = meant_column(shown, names)
                    raise ModelError(
                        f"relation {text!r} names {shown!r}, which is no column; {hint}"
                    )
            columns = {name: by_text[shown] for name, shown in identifiers.items()}
            expressions.append(Expression(node, columns))
        left, right = expressions
        both = [name for name in left.columns if name in right.columns]
        if both:
            raise refusal(
                text,
                f"column {plain(both[0])!r} stands on both sides",
                "write it on one side alone",
            )
        if isinstance(right.node, ast.Name) and not isinstance(left.node, ast.Name):
            left, right = right, left
        return cls(text, left, right)


def parsed(text: str, side: str) -> ast.expr:
    """One side of an equation as a tree, or a ``ModelError``."""
    try:
        return ast.parse(side.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        why = getattr(error, "msg", None) or str(error)
        raise refusal(
            text,
            f"{side.strip()!r} cannot be read: {why}",
            "write columns, numbers, + - * / ** and functions such as log(x); names with spaces"
            " stand in backticks",
        ) from None


def variables_of(text: str, node: ast.expr) -> list[ast.Name]:
    """The names of columns in a tree, which has allowed nodes alone, or a ``ModelError``."""
    try:
        value = ast.unparse(node)
        match node:
            case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
                if np.isfinite(float(number)):
                    return []
            case ast.Name():
                return [node]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATIONS:
                names = [*variables_of(text, left), *variables_of(text, right)]
                return names or constants_of(text, node)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in OPERATIONS:
                return variables_of(text, operand) or constants_of(text, node)
            case ast.Call(func=function, args=[argument], keywords=[]):
                name = name_of(function)
                if name not in FUNCTIONS:
                    hint = meant(name or value, list(FUNCTIONS), "functions")
                    raise refusal(text, f"{name or value!r} is no function there", hint)
                return variables_of(text, argument) or constants_of(text, node)
    except (RecursionError, OverflowError):
        value = "a side"
    raise refusal(
        text,
        f"{value} is neither a column, a finite number nor an operation on them",
        "write columns, numbers, + - * / ** and functions such as log(x)",
    )


def constants_of(text: str, node: ast.expr) -> list[ast.Name]:
    """No names; a ``ModelError`` where an expression of numbers alone is not finite."""
    if not np.isfinite(Expression(node, {}).values({})):
        raise refusal(text, f"{ast.unparse(node)} is not finite", "give another number")
    return []


def name_of(function: ast.expr) -> str:
    """The name of a function that is called, with or without ``np.`` before it; else ""."""
    match function:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=ast.Name(id=module), attr=name) if module in MODULES:
            return name
    return ""


def refusal(text: str, why: str, remedy: str) -> ModelError:
    """The error of a relation that cannot be read."""
    return ModelError(f"relation {text!r}: {why}; {remedy}")
