"""Values of the package as JSON and arrays, and back: nothing that is stored can be run."""

import json
import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from enum import StrEnum
from functools import cache
from importlib import import_module
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import attrs
import numpy as np

from mcframe.contracts.arrays import INTERVALS, Array, between, class_offers, ends_of
from mcframe.contracts.errors import DataError, McframeError, ModelError
from mcframe.contracts.showing import cut
from mcframe.contracts.stored_classes import (
    PACKAGE,
    STORED,
    Declaration,
    declaration_of,
    from_outside,
    full_name_of,
)
from mcframe.contracts.validators import a_type, meant
from mcframe.contracts.wording import wording
from mcframe.storage import stored_frames

# The format of files that are written, and all that are read.
FORMAT = 9
FORMATS = (8, 9)
# Packages whose public classes a model is written with.
WORDS = ("likelihoods", "risks", "regularizers", "constraints")
# Names of classes of the package: only their modules are ever imported for a file.
OF_PACKAGE = re.compile(rf"{PACKAGE}(\.[a-z][a-z0-9_]*)+\.[A-Za-z]\w*")
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
        if isinstance(value, StrEnum):
            return value.value
        if kind is float:
            return value if math.isfinite(value) else {"is": "float", "of": repr(value)}
        if kind is tuple:
            return [self.plain(part, f"{place}.{k}") for k, part in enumerate(value)]
        if id(value) in self.shared:
            return {"is": "given", "as": self.shared[id(value)]}
        if id(value) in self.written:
            return {"is": "same", "as": self.written[id(value)]}
        declaration = declaration_of(kind)
        if declaration is None:
            name, parts = self.parts(value, place)
        else:
            name, parts = name_of(declaration), fields_of(value, declaration)
            if declaration.dispensable and not self.holds(parts):
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
        """The name and the parts of a value of a class that declares nothing of itself."""
        if isinstance(value, np.ndarray):
            return self.array(value, place)
        if isinstance(value, np.generic) and value.dtype.kind in PLAIN_KINDS:
            number = value.astype(np.int64) if value.dtype.kind in "Mm" else value
            return "number", {"dtype": value.dtype.str, "of": number.item()}
        if isinstance(value, Mapping):
            return "dict", {"keys": tuple(value), "values": tuple(value.values())}
        library = type(value).__module__.partition(".")[0]
        for base in type(
            value
        ).__mro__:  # kinds of labels and of columns have one class above them
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
        if value.dtype == INTERVALS:
            lower, upper = map(np.ascontiguousarray, ends_of(value))
            return "intervals", {"lower": lower, "upper": upper}
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

    def value(self, plain: Any, dropped: bool = False) -> Any:
        """The value of some JSON.

        Of ``dropped`` values, which nothing needs any more, no class is made: they are read since
        later parts may be the same as one of their arrays.
        """
        if isinstance(plain, list):
            return tuple([self.value(part, dropped) for part in plain])
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
        if name == "array" or name in PUT_TOGETHER:
            made = self.make(name, {key: self.value(part, dropped) for key, part in parts.items()})
        else:
            made = self.instance(name, parts, dropped)
        self.made.append(made)
        return made

    def make(self, name: str, parts: dict[str, Any]) -> Any:
        """The array, or the value of a library, with these parts."""
        if name == "array":
            return self.arrays[parts["at"]] if "at" in parts else array_of(**parts)
        for key, part in parts.items():
            if key not in INDEXED and type(part).__name__ == "RangeIndex":
                raise TypeError(f"{key} of {name} is no range")  # which may be endless
        return PUT_TOGETHER[name](**parts)

    def instance(self, name: object, plain: Mapping[str, Any], dropped: bool) -> Any:
        """The instance of a declared class whose fields have this JSON; None if it is dropped."""
        if dropped:
            for part in plain.values():
                self.value(part, dropped)
            return None
        declaration = declared_as(name, plain)
        kind: Any = declaration.stored_as or declaration.kind
        renamed = declaration.renamed_fields
        parts = {}
        for key, part in plain.items():
            value = self.value(part, dropped=key in declaration.former_fields)
            if key in declaration.formerly_none and value is None:
                continue
            if key not in declaration.former_fields:
                parts[renamed.get(key, key)] = value
        fields = {field.alias or field.name: field for field in attrs.fields(kind) if field.init}
        called = f"{kind.__name__} {parts['name']!r}" if "name" in parts else kind.__name__
        for key in parts:
            if key not in fields:
                hint_of_name = meant(key, list(fields), "names")
                raise DataError(f"{called} has no {key!r}; {hint_of_name}")
        for key, field in fields.items():
            if key in declaration.recomputed:
                parts.pop(key, None)
                if field.default is attrs.NOTHING:
                    parts[key] = None
            elif key not in parts and field.default is attrs.NOTHING:
                raise DataError(f"{called} needs a value of {key!r}; add it")
        # Before it is made: a converter would read a range of labels to its end.
        hints = hints_of(kind)
        for key, part in parts.items():
            if key in hints and not is_as_annotated(part, hint := hints[key]):
                value_text = f"{key}={cut(repr(part))} was given"
                raise DataError(f"{called}: {value_text}; {type_in_words(hint)} is needed")
        made = kind(**parts)
        if class_offers(made, "_check_read"):
            made._check_read()
        return made


@cache
def hints_of(kind: type) -> dict[str, Any]:
    """The annotations of the fields of a class that are written."""
    hints, declaration = get_type_hints(kind), declaration_of(kind)
    recomputed = () if declaration is None else declaration.recomputed
    names = {field.alias or field.name: field.name for field in attrs.fields(kind)}
    return {key: hints[name] for key, name in names.items() if key not in recomputed}


def is_as_annotated(value: Any, hint: Any) -> bool:
    """True if a value is as annotated, as far as this can be seen from outside."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is None or hint is type(None):
        return value is None
    if origin in (Union, UnionType):
        return any(is_as_annotated(value, member) for member in inner)
    if origin is Literal:  # arrays compare element by element
        return any(type(value) is type(member) and value == member for member in inner)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if inner[-1:] == (Ellipsis,):
            return all(is_as_annotated(part, inner[0]) for part in value)
        return len(value) == len(inner) and all(map(is_as_annotated, value, inner))
    kind = origin or hint
    if kind in (float, int):
        numbers = (int, np.integer) if kind is int else (int, float, np.integer, np.floating)
        return isinstance(value, numbers)
    if not isinstance(kind, type) or kind in (object, Any):
        return True
    if issubclass(kind, StrEnum):  # its text, which the class converts
        return value in [member.value for member in kind]
    with suppress(TypeError):  # protocols that are not told apart
        if not isinstance(value, kind) and not stands_for(value, kind):
            return False
    if isinstance(value, Mapping) and len(inner) == 2:
        return all(
            is_as_annotated(k, inner[0]) and is_as_annotated(part, inner[1])
            for k, part in value.items()
        )
    return True


def stands_for(value: object, kind: type) -> bool:
    """True if the class of a value says that it may take the place of another one."""
    declaration = declaration_of(type(value))
    return declaration is not None and declaration.stands_for is kind


def to_text(value: object, name: str) -> str:
    """A value as the text of JSON, its arrays as lists."""
    plain = Writer({}, inline=True).plain(value, name)
    return json.dumps({"format": FORMAT, name: plain}, indent=1)


def from_text(text: str, kind: type) -> Any:
    """The value of a class that ``to_text`` has written; a ``DataError`` of all other texts."""
    name = kind.__name__.lower()
    try:
        document = json.loads(text)
        check_format(document["format"])
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


def type_in_words(hint: Any) -> str:
    """A type as in a sentence: "true or false or 'robust'"."""
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return " or ".join(repr(member.value) for member in hint)
    if isinstance(hint, type):
        return IN_WORDS.get(hint, hint.__name__.removesuffix("Type"))
    of_parts = repr if get_origin(hint) is Literal else type_in_words
    return " or ".join(of_parts(part) for part in get_args(hint) if part is not ...) or str(hint)


def check_format(number: object) -> None:
    """Raise a ``DataError`` where a text is of a format that this version does not read."""
    if number not in FORMATS:
        raise DataError(f"its format is {number!r}, and {formats_read()} are read")


def formats_read() -> str:
    """The formats that are read, as in a sentence."""
    return " and ".join(map(str, FORMATS))


def declared_as(name: object, parts: Mapping[str, Any]) -> Declaration:
    """The declaration of the class that files have under a name, or a ``DataError``.

    No other class is ever made from a file. A module is imported for it only within the package:
    classes from outside have to be declared already.
    """
    if name is None:
        raise DataError(
            f"{wording().value(dict(parts))} does not say what it is; add is = ..., a word of"
            " mcframe"
        )
    text = str(name)
    declaration = find_declaration(text)
    if declaration is not None:
        return declaration
    if text.startswith(f"{PACKAGE}."):
        raise DataError(
            f"is = {text!r} is no class that this version of mcframe reads; read the file with the"
            " version that wrote it"
        )
    if "." in text:
        declared = "where @mcframe.contracts.stored declares it"
        remedy = wording().either(
            python=f"import its module, {declared}, before the file is read",
            command=f"give --plugin MODULE, the module {declared}",
        )
        raise DataError(f"is = {text!r} is a class from outside of mcframe; {remedy}")
    words = [word for package in WORDS for word in import_module(f"{PACKAGE}.{package}").__all__]
    words += [declaration.kind.__name__ for declaration in from_outside()]
    raise DataError(f"is = {text!r} is no word of mcframe; {meant(text, words, 'words')}")


def find_declaration(name: str) -> Declaration | None:
    """The declaration of the class that files have under a name; None where there is none.

    People write the name of a class from outside alone, too. One of the package comes first.
    """
    if name not in STORED and OF_PACKAGE.fullmatch(name):
        with suppress(ModuleNotFoundError):
            import_module(name.rpartition(".")[0])
    if name in STORED:
        return STORED[name]
    named = [declaration for declaration in from_outside() if declaration.kind.__name__ == name]
    return named[0] if len(named) == 1 else None


def name_of(declaration: Declaration) -> str:
    """The name that files have for a class: as in ``mc.Gaussian`` for a public one."""
    kind, package = declaration.stored_as or declaration.kind, import_module(PACKAGE)
    # A name that the package does not have would be compared with all that it has.
    named = kind.__name__ in vars(package) or kind.__name__ in package.__all__
    public = named and getattr(package, kind.__name__) is kind
    return kind.__name__ if public else full_name_of(kind)


def fields_of(value: Any, declaration: Declaration) -> dict[str, Any]:
    """The fields of an instance of a declared class that are written."""
    fields = {
        field.alias or field.name: field for field in attrs.fields(type(value)) if field.init
    }
    return {
        key: getattr(value, field.name)
        for key, field in fields.items()
        if key not in declaration.recomputed
    }


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
    "intervals": between,
    "objects": objects_of,
    "deque": lambda of, maxlen: deque(flat(of), maxlen),
    "type": lambda of: np.dtype(of).type,
    **stored_frames.PUT_TOGETHER,
}
