"""Values of the package as JSON and arrays, and back: nothing that is stored can be run."""

import json
import math
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, class_offers
from mcframe.contracts.errors import DataError, McframeError, ModelError
from mcframe.contracts.showing import cut
from mcframe.contracts.stored_classes import STORED
from mcframe.contracts.validators import a_type, meant
from mcframe.storage import stored_frames

# Changes where files of earlier versions are not read any more.
FORMAT = 8
# Packages whose public classes are stored by name.
WORDS = ("likelihoods", "risks", "regularizers", "constraints")
# Further classes that are stored field by field, by the module where they stand. No other class is
# ever made from a file.
CLASSES = {
    "backends.alternating": "Alternating AlternatingState",
    "backends.backend": "History SolverCheckpoint Record",
    "backends.certificate": "Dual Point Rounding",
    "backends.factored": "FactoredDescent FactoredState",
    "backends.fpc": "FPC FPCState",
    "backends.proximal": "Proximal ProximalState",
    "backends.row_space": "RowSpace",
    "backends.rowwise": "Rowwise",
    "backends.splitting": "Nonsmooth Splitting SplittingState",
    "calibration": "Calibration",
    "fitting.fit_answer": "CompactState Fit",
    "model.binding": "Layout LossCounts Totals",
    "model.labels": "AxisLabels",
    "model.model": "Block Model",
    "model.problem": "Problem",
    "model.table": "OriginalValues Standard Table TableWithoutData",
    "model.transforms": "AffineUnits CellNumbers OffsetWithoutData RankUnits",
    "numerics.kernels": "Compressed",
    "numerics.low_rank_rows": "LowRankRows",
    "numerics.operators": "LowRank",
    "numerics.quasi_newton": "Memory",
    "numerics.row_mixtures": "Form Incomplete RowMixture",
    "numerics.shrinkage": "Shrinker Shrunk",
    "posterior.answer": "Posterior",
    "posterior.estimation": "Sweep",
    "posterior.factor_state": "Design FactorState Gaussians Priors",
    "posterior.factors": "FactorPosterior",
    "posterior.joint": "JointPosterior",
    "posterior.observed": "Observed ObservedBlock Summary",
    "posterior.row_pass": "PosteriorRows",
    "posterior.rows": "RowsParameters RowsPosterior RowsPrior",
    "posterior.wide_rows": "WideParameters WidePrior",
    "regularizers.residual_nuclear_norm": "BoundResidualNuclearNorm",
    "runtime.work": "Work",
    "selection.cross_validation_answer": "CrossValidation",
    "tables.coding": "Choice CountedNumbers Counts Dates Discriminant Indicator Indicators Levels"
    " Numbers Steps",
    "tables.columns": "Column TextNumbers",
    "tables.completion": "Completion",
    "tables.declared_column": "DeclaredColumn",
    "tables.calibrating": "ColumnScores",
    "tables.declared": "Declared",
    "tables.rows_choice": "RowsChoice",
}
HOMES = {name: module for module, names in CLASSES.items() for name in names.split()}
# Classes of earlier files of this format, and their names now.
RENAMED_CLASSES = {
    "Given": "OriginalValues",
    "Kept": "CompactState",
    "Paused": "SolverCheckpoint",
    "LeftBehind": "TableWithoutData",
    "OffsetLeftBehind": "OffsetWithoutData",
}
# Fields of these files, by the name that their class has now, and their names now.
RENAMED = {
    "Compressed": {"as_given": "in_order"},
    "Design": {"given": "fixed_values"},
    "Table": {"given": "original", "unwritten": "has_implicit_cells"},
    "Dual": {"given": "effects", "known": "fenchel_conjugates"},
    "Rounding": {
        "moved": "total",
        "nothing": "zero_below",
        "resolved": "resolution",
        "room": "infeasibility",
        "bound": "of_bound",
    },
}
# Fields that are found anew from others, or are None until they are.
FOUND_ANEW = {"FactoredState": "rng", "PosteriorRows": "latest", "Shrinker": "rng"}
# A class that takes the place of another one without being one.
STANDS_FOR = {"TableWithoutData": "Table"}
# The class without which an answer is whole: None where it cannot be stored, as the state of a
# solver of the user's own.
DISPENSABLE = "SolverCheckpoint"
# Fields of earlier versions that were None in every file.
LEFT_OUT = {"PosteriorRows": "partitions"}
# The most bytes of an array in the text for each character, and bytes that it may take anyway.
WIDEST, SMALL = 64, 4096
# Kinds of numpy's dtypes without Python objects.
PLAIN_KINDS = "biufMmU"


def serialize(
    value: object, name: str = "", shared: Mapping[str, object] | None = None
) -> tuple[dict[str, Array], Any]:
    """Arrays by name, and the JSON of all else that a value consists of.

    Parameters
    ----------
    value : object
        Of classes of the package, numbers, words, arrays and frames.
    name : str
        What messages call the value.
    shared : dict of objects
        Parts of the value that whoever reads it has already, by any word.

    Raises
    ------
    ModelError
        Where the value holds what cannot be stored, such as a class of the user's own.
    """
    writer = Writer({id(part): word for word, part in (shared or {}).items()})
    facts = writer.plain(value, name)
    return writer.arrays, facts


def deserialize(
    arrays: Mapping[str, Array], facts: Any, shared: Mapping[str, object] | None = None
) -> Any:
    """The value that was passed to ``serialize``, with the same ``shared`` parts.

    Every field of a class is compared with its annotation, and values with the numbers that
    follow from them (``_check_read``). Any exception may come out where other hands have written
    the facts, but nothing in them is run.
    """
    return Reader(arrays, shared or {}).value(facts)


@attrs.define(eq=False)
class Writer:
    """Turns a value into JSON, and its arrays into a dict; what occurs twice is stored once."""

    shared: Mapping[int, str]
    arrays: dict[str, Array] = attrs.field(factory=dict)
    written: dict[int, int] = attrs.field(factory=dict)  # by identity, in order
    alive: list[Any] = attrs.field(factory=list)  # so that no identity is used again
    inline: bool = False  # arrays as lists

    def plain(self, value: Any, place: str) -> Any:
        """The JSON of a value that stands at this place."""
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return value if math.isfinite(value) else {"is": "float", "of": repr(value)}
        if kind is tuple:
            return [self.plain(part, f"{place}.{k}") for k, part in enumerate(value)]
        if id(value) in self.shared:
            return {"is": "given", "as": self.shared[id(value)]}
        if id(value) in self.written:
            return {"is": "same", "as": self.written[id(value)]}
        name, parts = self.parts(value, place)
        if name == DISPENSABLE and not self.holds(parts):
            return None
        facts = {key: self.plain(part, f"{place}.{key}") for key, part in parts.items()}
        if not self.inline:
            self.written[id(value)] = len(self.written)
            self.alive.append(value)
        return {"is": name, **facts}

    def holds(self, parts: Mapping[str, Any]) -> bool:
        """True if all parts can be stored; nothing is."""
        trial = Writer(self.shared)
        try:
            for name, part in parts.items():
                trial.plain(part, name)
        except ModelError:
            return False
        return True

    def parts(self, value: Any, place: str) -> tuple[str, Mapping[str, Any]]:
        """The name of what a value is, and its parts."""
        kind: Any = type(value)
        name = name_of(kind)
        if name is not None:
            fields = [f for f in attrs.fields(kind) if f.init and f.name != FOUND_ANEW.get(name)]
            return name, {f.alias or f.name: getattr(value, f.name) for f in fields}
        if isinstance(value, np.ndarray):
            return self.array(value, place)
        if isinstance(value, np.generic) and value.dtype.kind in PLAIN_KINDS:
            number = value.astype(np.int64) if value.dtype.kind in "Mm" else value
            return "number", {"dtype": value.dtype.str, "of": number.item()}
        if isinstance(value, Mapping):
            return "dict", {"keys": tuple(value), "values": tuple(value.values())}
        library = kind.__module__.partition(".")[0]
        for base in kind.__mro__:  # kinds of labels and of columns have one class above them
            take = TAKEN_APART.get((library, base.__name__))
            if take is not None:
                with suppress(TypeError):  # of a dtype that is not stored
                    return take(value)
        raise refusal(value, place)

    def array(self, value: Array, place: str) -> tuple[str, Mapping[str, Any]]:
        """The parts of an array: its name among the arrays, or its elements."""
        if value.dtype.kind == "O":
            for element in value.flat:
                if getattr(element, "ndim", 0):
                    raise refusal(element, place)
            return "objects", {"shape": value.shape, "of": tuple(value.ravel().tolist())}
        if value.dtype.kind not in PLAIN_KINDS:
            raise refusal(value, place)
        if self.inline:
            numbers = value.view(np.int64) if value.dtype.kind in "Mm" else value
            elements = tuple(numbers.ravel().tolist())
            return "array", {"dtype": value.dtype.str, "shape": value.shape, "of": elements}
        name = place.lstrip(".").replace(".", "/") or "value"
        self.arrays[name] = value
        return "array", {"at": name}


# Parts that may be ranges of labels.
INDEXED = {"index", "columns", "categories"}


@attrs.define(eq=False)
class Reader:
    """Makes values whole again that a ``Writer`` has turned into JSON and arrays."""

    arrays: Mapping[str, Array]
    shared: Mapping[str, Any]
    made: list[Any] = attrs.field(factory=list)

    def value(self, plain: Any) -> Any:
        """The value of some JSON."""
        if isinstance(plain, list):
            return tuple([self.value(part) for part in plain])
        if not isinstance(plain, dict):
            return plain
        parts = dict(plain)
        name = parts.pop("is", None)
        if name == "float":
            return float(parts["of"])
        if name == "given":
            return self.shared[parts["as"]]
        if name == "same":
            return self.made[parts["as"]]
        made = self.make(name, {key: self.value(part) for key, part in parts.items()})
        self.made.append(made)
        return made

    def make(self, name: str, parts: dict[str, Any]) -> Any:
        """The value of that name with these parts."""
        if name == "array":
            return self.arrays[parts["at"]] if "at" in parts else array_of(**parts)
        if name in PUT_TOGETHER:
            for key, part in parts.items():
                if key not in INDEXED and type(part).__name__ == "RangeIndex":
                    raise TypeError(f"{key} of {name} is no range")  # which may be endless
            return PUT_TOGETHER[name](**parts)
        name = full_name_of(RENAMED_CLASSES.get(name, name))
        kind = class_of(name)
        if name is None:
            raise DataError(f"{parts} does not say what it is; add is = ..., a word of mcframe")
        if kind is None and "." in str(name):
            raise DataError(
                f"is = {name!r} is a class from outside of mcframe; import its module, where"
                " @mcframe.contracts.stored declares it, before the file is read (on the command"
                " line: --plugin MODULE)"
            )
        if kind is None:
            words = [
                word for package in WORDS for word in import_module(f"mcframe.{package}").__all__
            ]
            words += [class_.__name__ for class_ in STORED.values()]
            hint_of_name = meant(str(name), words, "words")
            raise DataError(f"is = {name!r} is no word of mcframe; {hint_of_name}")
        renamed = RENAMED.get(name, {})
        parts = {renamed.get(key, key): part for key, part in parts.items()}
        fields = {field.alias or field.name: field for field in attrs.fields(kind) if field.init}
        called = f"{name} {parts['name']!r}" if "name" in parts else name
        if parts.get(LEFT_OUT.get(name, ""), "") is None:
            del parts[LEFT_OUT[name]]
        for key in parts:
            if key not in fields:
                hint_of_name = meant(key, list(fields), "names")
                raise DataError(f"{called} has no {key!r}; {hint_of_name}")
        for key, field in fields.items():
            if field.name == FOUND_ANEW.get(name) and field.default is attrs.NOTHING:
                parts[key] = None
            elif key not in parts and field.default is attrs.NOTHING:
                raise DataError(f"{called} needs a value of {key!r}; add it")
        # Before it is made: a converter would read a range of labels to its end.
        hints = hints_of(kind)
        for key, part in parts.items():
            if fields[key].name in hints and not fits(part, hint := hints[fields[key].name]):
                value_text = f"{key}={cut(repr(part))} was given"
                raise DataError(f"{called}: {value_text}; {in_words(hint)} is needed")
        made = kind(**parts)
        if class_offers(made, "_check_read"):
            made._check_read()
        return made


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """The annotations of the fields of a class, but of those that are found anew.

    The paused state of a solver leaves any of them out.
    """
    hints, name = get_type_hints(kind), kind.__name__
    paused = HOMES.get(name, "").startswith("backends.") and name.endswith("State")
    return {
        field.name: hints[field.name] | None if paused else hints[field.name]
        for field in attrs.fields(kind)
        if field.name != FOUND_ANEW.get(name)
    }


def fits(value: Any, hint: Any) -> bool:
    """True if a value is as annotated, as far as this can be seen from outside."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, UnionType):
        return any(fits(value, member) for member in inner)
    if origin is Literal:  # arrays compare element by element
        return any(type(value) is type(member) and value == member for member in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1:] == (Ellipsis,):
            return all(fits(part, inner[0]) for part in value)
        return len(value) == len(inner) and all(map(fits, value, inner))
    kind = origin or hint
    if kind in (float, int):
        numbers = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers)
    if not isinstance(kind, type) or kind in (object, Any):
        return True
    with suppress(TypeError):  # protocols that are not told apart
        if not isinstance(value, kind) and STANDS_FOR.get(type(value).__name__) != kind.__name__:
            return False
    if isinstance(value, Mapping) and len(inner) == 2:
        return all(fits(k, inner[0]) and fits(part, inner[1]) for k, part in value.items())
    return True


def to_text(value: object, name: str) -> str:
    """A value as the text of JSON, its arrays as lists."""
    plain = Writer({}, inline=True).plain(value, name)
    return json.dumps({"format": FORMAT, name: plain}, indent=1)


def from_text(text: str, kind: type) -> Any:
    """The value of a class that ``to_text`` has written; a ``DataError`` of all other texts."""
    name = kind.__name__.lower()
    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']!r}, and {FORMAT} is read")
        value = deserialize({}, document[name])
        if not isinstance(value, kind):
            raise ValueError(f"it is {a_type(value)}")
        return value
    except Exception as error:  # whatever other hands have written into it
        raise DataError(
            f"the text is no {name} that this version of mcframe can read ({message_of(error)});"
            f" give what {kind.__name__}.to_json has written"
        ) from None


def message_of(error: Exception) -> str:
    """The message of an error, with its kind where that is not the package's own."""
    if isinstance(error, McframeError):
        return str(error)
    return f"{type(error).__name__}: {error}"


IN_WORDS = {bool: "true or false", str: "text", int: "a whole number", float: "a number"}


def in_words(hint: Any) -> str:
    """A type as in a sentence: "true or false or 'robust'"."""
    if isinstance(hint, type):
        return IN_WORDS.get(hint, hint.__name__.removesuffix("Type"))
    of_parts = repr if get_origin(hint) is Literal else in_words
    return " or ".join(of_parts(part) for part in get_args(hint) if part is not ...) or str(hint)


def class_of(name: str) -> Any:
    """The class of the package that is stored under a name; None where there is none."""
    if name in STORED:
        return STORED[name]
    if name in HOMES:
        return getattr(import_module(f"mcframe.{HOMES[name]}"), name)
    for package in WORDS:
        module = import_module(f"mcframe.{package}")
        if name in module.__all__ and attrs.has(word_class := getattr(module, name)):
            return word_class
    return None


def full_name_of(name: str) -> str:
    """The name that a class from outside is stored under, of its name alone; else the same name.

    As people write it in a file. A class of the package comes first.
    """
    if name in STORED or "." in str(name) or class_of(name) is not None:
        return name
    named = [full_name for full_name, kind in STORED.items() if kind.__name__ == name]
    return named[0] if len(named) == 1 else name


def name_of(kind: type) -> str | None:
    """The name that a class is stored under; None of one that is not stored.

    A class behind a public one, as those of a ``Calibration``, has the name of that.
    """
    if not attrs.has(kind):
        return None
    full_name = f"{kind.__module__}.{kind.__qualname__}"
    if STORED.get(full_name) is kind:
        return full_name
    for base in kind.__mro__:
        if base.__module__ == kind.__module__ and class_of(base.__name__) is base:
            return base.__name__
    return None


def refusal(value: Any, place: str) -> ModelError:
    """The error of a value that cannot be stored, with the remedy."""
    name = type(value).__name__
    contents = "files hold mcframe's classes, numbers, texts, arrays and frames alone"
    remedy = "keep what you need of the answer as arrays, or of a column as text"
    if attrs.has(type(value)):
        remedy = f"declare {name} by @mcframe.contracts.stored, or {remedy}"
    reason = getattr(value, "why_not_stored", f"{contents}; {remedy}")
    return ModelError(f"{place.lstrip('.')} is a {name}: {reason}")


def array_of(dtype: str, shape: tuple[int, ...], of: tuple[Any, ...]) -> Array:
    """The array of these elements."""
    kind = np.dtype(dtype)
    if kind.kind not in PLAIN_KINDS:
        raise ValueError(f"arrays of {dtype} are not stored")
    if not all(isinstance(element, bool | int | float | str) for element in flat(of)):
        raise ValueError("elements of an array are numbers or texts")
    if kind.itemsize * len(of) > SMALL + WIDEST * sum(len(str(element)) for element in of):
        raise ValueError(f"arrays of {dtype} are much longer than their texts")
    read: Any = np.int64 if kind.kind in "Mm" else kind
    return np.array(of, dtype=read).astype(kind).reshape(shape)


def flat(of: Any) -> tuple[Any, ...]:
    """The elements of a list that was read; a ``TypeError`` for what is read as anything else.

    Labels of rows that are counted may be 1e15, and nothing here counts them one by one.
    """
    if not isinstance(of, tuple):
        raise TypeError(f"{a_type(of)} stands where a list is needed")
    return of


def objects_of(shape: tuple[int, ...], of: tuple[Any, ...]) -> Any:
    """The array of these Python objects."""
    made = np.empty(len(flat(of)), dtype=object)
    for place, value in enumerate(stored_frames.scalars(of)):
        made[place] = value
    return made.reshape(shape)


# What values of other classes consist of, by the first package and the name of the class; and
# functions of these parts.
TAKEN_APART: dict[tuple[str, str], Callable[[Any], tuple[str, Mapping[str, Any]]]] = {
    ("collections", "deque"): lambda value: (
        "deque",
        {"of": tuple(value), "maxlen": value.maxlen},
    ),
    ("builtins", "list"): lambda value: ("list", {"of": tuple(value)}),
    ("builtins", "type"): lambda value: ("type", {"of": np.dtype(value).str}),
    ("builtins", "slice"): lambda value: (
        "slice",
        {"start": value.start, "stop": value.stop, "step": value.step},
    ),
    **stored_frames.TAKEN_APART,
}
PUT_TOGETHER: dict[str, Callable[..., Any]] = {
    "list": lambda of: list(flat(of)),
    "dict": lambda keys, values: dict(zip(flat(keys), flat(values), strict=True)),
    "slice": lambda start, stop, step: slice(start, stop, step),
    "number": lambda dtype, of: array_of(dtype, (1,), (of,))[0],
    "objects": objects_of,
    "deque": lambda of, maxlen: deque(flat(of), maxlen),
    "type": lambda of: np.dtype(of).type,
    **stored_frames.PUT_TOGETHER,
}
