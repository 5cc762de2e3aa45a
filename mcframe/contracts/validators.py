"""Checks of parameters and of real numbers: the message names word, value and remedy."""

import difflib
import inspect
import math
import os
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import partial, wraps
from numbers import Real
from types import FunctionType
from typing import Any, Generic, ParamSpec, TypeVar, cast

import attrs
import numpy as np

from mcframe.contracts.arrays import Array, Mask, class_offers
from mcframe.contracts.data_forms import is_sparse_matrix
from mcframe.contracts.errors import ModelError
from mcframe.contracts.limits import MOST_CHARACTERS, MOST_LISTED, MOST_TREND
from mcframe.contracts.rounding import LARGEST_MODERATE, LEAST_MODERATE
from mcframe.contracts.stored_classes import is_inside
from mcframe.contracts.wording import wording

Arguments = ParamSpec("Arguments")
ResultT = TypeVar("ResultT")
ValueT = TypeVar("ValueT")
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])

# Kinds of dtypes that are real numbers throughout: booleans, integers, floats.
REAL_KINDS = "buif"


class NotANumber(Exception):
    """A value that is no real number, such as text or a date, and its position in the array."""

    def __init__(self, position: tuple[int, ...], value: object) -> None:
        super().__init__(position, value)
        self.position = position
        self.value = plain(value)


def floats_of(data: Any) -> Array:
    """A float64 copy of anything that numpy reads as an array, NaN where it is masked or missing.

    Taken are booleans, integers and floats, and objects that are all real numbers or stand for
    a missing one. Text is no number, even where ``float`` would read it, and neither are dates,
    durations and complex numbers.

    Raises
    ------
    NotANumber
        With the first value that is none.
    TypeError, ValueError, OverflowError
        Where numpy reads no array.
    """
    array = np.asarray(data)
    hidden = np.ma.getmaskarray(data) if isinstance(data, np.ma.MaskedArray) else None
    if array.dtype.kind in REAL_KINDS:
        floats: Array = array.astype(np.float64)
    else:
        floats = np.full(array.shape, np.nan)
        for position, value in np.ndenumerate(array):
            if hidden is None or not hidden[position]:
                number = as_float(value)
                if number is None:
                    raise NotANumber(position, value)
                floats[position] = number
    if hidden is not None:
        floats[hidden] = np.nan
    return floats


def as_float(value: object) -> float | None:
    """A real number as a float, NaN for what stands for a missing one; None for all else."""
    if is_missing(value):
        return float("nan")
    # To numpy a duration is an integer, and a truth value no number.
    if isinstance(value, np.timedelta64) or not isinstance(value, Real | Decimal | np.bool_):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")  # type: ignore[operator]


def is_missing(value: object) -> bool:
    """True if an object stands for a missing number: None, pandas' NA and NaT, Decimal("NaN")."""
    pandas = sys.modules.get("pandas")
    if value is None or (isinstance(value, Decimal) and value.is_nan()):  # also a signalling one
        return True
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def reads_as_number(value: object) -> bool:
    """True if ``float`` would read a value: text such as "1.5" is then a number in disguise."""
    try:
        float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        return False
    return True


def exact(value: float) -> str:
    """A number as it was given: 3.0000001 is not 3, and 28733.02 not 28733."""
    text = f"{value:g}"
    return text if float(text) == value else repr(float(value)).removesuffix(".0")


def plain(value: object) -> object:
    """A numpy scalar, or a tuple of such, as the Python object that it stands for."""
    if isinstance(value, tuple):
        return tuple(plain(part) for part in value)
    return value.item() if isinstance(value, np.generic) else value


def as_given(value: object) -> str:
    """A given value as messages write it: on one line, and the start where it is long."""
    text = " ".join(wording().value(plain(value)).split())
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}..."


def listed(
    values: Any, text: Callable[[Any], str] = str, most: int = MOST_LISTED, between: str = ", "
) -> str:
    """Some values for a message: the first of them as texts, and how many more there are."""
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return between.join(map(text, values[:most])) + more


def instead_of_class(value: object, base: type) -> str:
    """The remedy where a class was given and one of its instances is needed; "" elsewhere."""
    if isinstance(value, type) and issubclass(value, base):
        name = value.__name__
        return wording().either(
            python=f"write {name}() with parentheses", command=f"give {wording().word(name)}"
        )
    return ""


def how_to_read(value: object) -> str:
    """The sentence on what to do with a path that was given for a table; "" where it is none."""
    is_path = isinstance(value, str | os.PathLike)
    return ". Read the file first, for example by pandas.read_csv" if is_path else ""


def a_type(value: object) -> str:
    """The class of a value with its article: "a list", "an int"."""
    return with_article(type(value).__name__)


def with_article(word: str) -> str:
    """A word behind "a" or "an"."""
    return f"a{'n' * word.lower().startswith(('a', 'e', 'i', 'o', 'nd'))} {word}"


def counted(count: float, one: str, more: str = "") -> str:
    """A number of things: "1 row", "2 rows", "2 entries"."""
    return f"{count:.15g} {one if count == 1 else more or f'{one}s'}"


# What other packages call some options.
NAMES_ELSEWHERE = {
    "random_state": ("seed", "rng"),
    "progress": ("verbose",),
    "max_seconds": ("timeout", "time_limit"),
    "method": ("algorithm",),
    "factors": ("rank", "n_components", "n_factors"),
    "backend": ("solver",),
    "criterion": ("scoring", "metric"),
    "missing_rate": ("rate",),
    "missing": ("na_values",),
    "missing_values": ("na_values",),
    "likelihoods": ("losses",),
}


def meant(word: str, candidates: Sequence[str], what: str) -> str:
    """The end of a message about an unknown word: the nearest known one, or some of them."""
    near = difflib.get_close_matches(word, candidates, n=1) or [
        name
        for name in candidates
        if (len(name) > 2 and len(word) > 2 and word.startswith(name))
        or word in NAMES_ELSEWHERE.get(name, ())
    ]
    return f"did you mean {near[0]!r}?" if near else f"the {what} are {some_names(candidates)}"


def all_and_meant(word: object, candidates: Sequence[str], what: str) -> str:
    """The end of a message about an unknown word: all known ones, and the nearest of them."""
    near = difflib.get_close_matches(str(word), candidates, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return f"the {what} are {', '.join(map(repr, candidates))}{hint}"


def some_names(names: Sequence[str]) -> str:
    """A list of names, the first eight of them where there are more."""
    return ", ".join(names[:8]) + ", ..." * (len(names) > 8)


def number(
    value: Any,
    what: str,
    needed: str = "a finite number is needed",
    holds: Callable[[float], bool] = math.isfinite,
) -> float:
    """A finite float for which ``holds`` is true, or a ``ModelError`` that ends in ``needed``."""
    is_plain = isinstance(value, int | float) and not isinstance(value, bool)
    try:  # a numpy scalar has a Python number
        result = float(value if is_plain else value.item())
    except (AttributeError, TypeError, ValueError, OverflowError):
        result = math.nan
    if not (math.isfinite(result) and holds(result)):
        raise ModelError(f"{what}={as_given(value)} was given; {needed}")
    return result


def whole(value: object, what: str, least: float = -math.inf, most: float = math.inf) -> int:
    """A Python integer from ``least`` to ``most``, or a ``ModelError``."""
    bound = f" of at least {least:g}" if math.isfinite(least) else ""
    bound = f" from {least:g} to {most:g}" if math.isfinite(most) else bound
    needed = f"a whole number{bound} is needed"
    return int(number(value, what, needed, lambda x: x == math.floor(x) and least <= x <= most))


def probability(value: object, what: str) -> float:
    """A number strictly between 0 and 1, or a ``ModelError``."""
    return number(value, what, "a number between 0 and 1 is needed", lambda x: 0.0 < x < 1.0)


def is_word(value: object, *words: str) -> bool:
    """True if a value is one of some words; an array, which is compared by entries, is none."""
    return isinstance(value, str) and value in words


def one_of(value: object, what: str, words: Sequence[str]) -> str:
    """One of some words, or a ``ModelError``."""
    if is_word(value, *words):
        return str(value)
    *others, last = map(repr, words)
    raise ModelError(
        f"{what}={as_given(value)} was given; {', '.join(others)} or {last} is needed"
    )


def switch(value: object, what: str) -> bool:
    """True or False, or a ``ModelError``."""
    if not isinstance(value, bool | np.bool_):
        either = " or ".join(map(wording().value, (True, False)))
        raise ModelError(f"{what}={as_given(value)} was given; {either} is needed")
    return bool(value)


# What every option ``random_state`` takes: a seed from 0, a generator, which moves on, or None.
RandomState = int | np.random.Generator | np.random.RandomState | None


def seed_of(random_state: object, what: str) -> int:
    """The seed, one drawn by a generator, a fresh one for None, or a ``ModelError``."""
    if random_state is None:
        return secrets.randbits(63)
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31))
    truth = isinstance(random_state, bool | np.bool_)
    if truth or not isinstance(random_state, int | np.integer) or random_state < 0:
        raise ModelError(
            f"{what}={as_given(random_state)} was given; an integer from 0, a generator of numpy"
            " such as numpy.random.default_rng(0), or None for a fresh seed is needed"
        )
    return int(random_state)


def seconds_of(value: object, what: str) -> float:
    """Seconds above 0, also infinitely many, or a ``ModelError``."""
    if isinstance(value, float) and value == math.inf:
        return value
    needed = "a number above 0 is needed, inf for no limit"
    return number(value, what, needed, lambda x: x > 0.0)


def threads_of(value: object, what: str) -> int | None:
    """A number of threads, None for as many as the environment says, or a ``ModelError``."""
    if value is None:
        return None
    try:
        threads = whole(value, what, least=-1)
    except ModelError:
        threads = 0
    if threads == -1:
        import joblib

        return int(joblib.cpu_count())
    if 1 <= threads <= 1024:  # operating systems may refuse to start more
        return threads
    raise ModelError(
        f"{what}={as_given(value)} was given; a whole number of threads, 1 to 1024, is needed, -1"
        " for one on each processor, or None for as many as the environment says"
    )


def processes_of(value: object, what: str) -> int:
    """A number of processes other than 0, or a ``ModelError``."""
    n_processes = whole(value, what)
    if n_processes == 0:
        raise ModelError(f"{what}=0 was given; 1 process or more is needed, -1 for one a core")
    return n_processes


def optional_switch(value: object, what: str) -> bool | None:
    """True, False, or None, or a ``ModelError``."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    raise ModelError(f"{what}={as_given(value)} was given; True, False or None is needed")


def function_of_record(value: object, what: str) -> Callable[[Any], Any] | None:
    """A function, None, or a ``ModelError``."""
    if value is None or callable(value):
        return value
    raise ModelError(f"{what}={as_given(value)} was given; a function of a Record is needed")


@attrs.frozen
class Option(Generic[ValueT]):
    """A plain option: called with what was given, it returns the value, or raises an error.

    Attributes
    ----------
    name : str
        As the user writes it.
    check : callable
        ``check(value, name)`` returns the value, or raises a ``ModelError`` that shows both.
    """

    name: str
    check: Callable[[object, str], ValueT]

    def __call__(self, value: object) -> ValueT:
        """The value as it is used, or a ``ModelError``."""
        return self.check(value, self.name)


def relative_gap(value: object, what: str) -> float:
    """A number from 0 to below 1, or a ``ModelError``."""
    needed = "a relative gap of at least 0 and below 1 is needed"
    return number(value, what, needed, lambda x: 0.0 <= x < 1.0)


def iterations_of(value: object, what: str) -> int:
    """A whole number from 0, or a ``ModelError``."""
    needed = "a whole number of iterations, 0 or more, is needed"
    return int(number(value, what, needed, lambda x: x >= 0.0 and x == math.floor(x)))


class Options:
    """The plain options of all verbs and answers: each means the same wherever it stands."""

    tol = Option("tol", relative_gap)
    max_iter = Option("max_iter", iterations_of)
    max_seconds = Option("max_seconds", seconds_of)
    random_state = Option("random_state", seed_of)
    progress = Option("progress", optional_switch)
    callback = Option("callback", function_of_record)
    n_jobs = Option("n_jobs", threads_of)
    n_processes = Option("n_jobs", processes_of)  # of verbs that make many fits

    level = Option("level", probability)
    confidence_level = Option("confidence_level", probability)
    on_average = Option("on_average", switch)
    nonlinear = Option("nonlinear", optional_switch)
    detect_limits = Option("detect_limits", switch)
    trend = Option("trend", partial(whole, least=0, most=MOST_TREND))
    share = Option("share", probability)

    factors = Option("factors", partial(whole, least=0))
    m = Option("m", partial(whole, least=1))
    n = Option("n", partial(whole, least=1))
    bins = Option("bins", partial(whole, least=1))
    n_tables = Option("n_tables", partial(whole, least=2))
    training_rows = Option("training_rows", partial(whole, least=1))
    n_partitions = Option("n_partitions", partial(whole, least=1))
    folds = Option("folds", partial(whole, least=1))
    row_folds = Option("folds", partial(whole, least=2))
    cv = Option("cv", partial(whole, least=2))
    n_weights = Option("n_weights", partial(whole, least=2))

    unseen = Option("unseen", partial(one_of, words=("missing", "error")))
    unknown = Option("unknown", partial(one_of, words=("refuse", "nan")))
    method = Option("method", partial(one_of, words=("posterior", "optimum")))
    posterior_method = Option("method", partial(one_of, words=("auto", "variational", "sampler")))
    quantity = Option("of", partial(one_of, words=("observation", "mean", "predictor")))
    cells = Option("cells", partial(one_of, words=("missing", "all")))
    row_groups = Option("groups", partial(one_of, words=("mask", "size")))


def above_zero(value: object, what: str, remedy: str = "") -> float:
    """A finite number above 0, or a ``ModelError``."""
    return number(value, what, f"a finite number above 0 is needed{remedy}", lambda x: x > 0.0)


def within(value: object, what: str, least: float, most: float) -> float:
    """A number from ``least`` to ``most``, or a ``ModelError``."""
    needed = f"a number from {least:g} to {most:g} is needed"
    return number(value, what, needed, lambda x: least <= x <= most)


def positive(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: a finite number above zero, kept as a Python float.

    A numpy scalar of lower precision would otherwise round the objective, and with it the
    certificate.
    """
    word = word_of(instance)
    name = getattr(instance, "name", None)
    word = f"{word} {name!r}" if isinstance(name, str) and word == "Block" else word
    hint = f". To do without {word}, leave it out of the model" * (attribute.name == "weight")
    checked = above_zero(value, f"{word}: {attribute.name}", hint)
    object.__setattr__(instance, attribute.name, checked)


def takes(check: Callable[[object, str], object], optional: bool = False) -> Any:
    """An attrs validator: a field keeps what ``check(value, "Word: field")`` returns.

    With ``optional`` it may be None, too.
    """

    def keep(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
        what = f"{word_of(instance)}: {attribute.name}"
        if not (optional and value is None):
            object.__setattr__(instance, attribute.name, check(value, what))

    return keep


def satisfies(holds: Callable[[float], bool], needed: str) -> Any:
    """An attrs validator: a number for which ``holds`` is true, kept as a Python float.

    ``needed`` is the end of the message that refuses another one.
    """
    return takes(partial(number, needed=needed, holds=holds))


#: An attrs validator: a share that is not the whole.
share = satisfies(lambda s: 0.0 <= s < 1.0, "a number from 0 (none) to below 1 is needed")
#: An attrs validator: a number that is not negative.
at_least_0 = satisfies(lambda x: x >= 0.0, "a number of at least 0 is needed")


def with_finite_square(value: object, what: str) -> float:
    """A number from 1e-150 to 1e150, or a ``ModelError``."""
    result = above_zero(value, what)
    if not LEAST_MODERATE <= result <= LARGEST_MODERATE:
        raise ModelError(
            f"{what}={as_given(value)} was given; it must lie between {LEAST_MODERATE:g} and"
            f" {LARGEST_MODERATE:g}, so that its square is a finite number. Rescale the data"
        )
    return result


#: An attrs validator: a number above 0 whose square and inverse are finite.
moderate = takes(with_finite_square)


def block_name(instance: object, attribute: "attrs.Attribute[Any]", value: object) -> None:
    """An attrs validator: the name of a block that a term speaks of."""
    if not isinstance(value, str) or not value.strip():
        raise ModelError(
            f"{word_of(instance)}: {attribute.name}={as_given(value)} was given; the name of a"
            " block is"
            " needed"
        )


def word_of(instance: object) -> str:
    """The name that a user writes: the ``word`` of a term, else the name of the class."""
    return str(getattr(instance, "word", type(instance).__name__))


def check_equations(instance: Any, axis: int = 0) -> None:
    """The last step of making a term with ``A Z = B``: A and B as matrices of floats, read-only.

    Both have a row for each equation; of ``Z A' = B``, with axis 1, B has a column for each. NaN
    in B says that an equation of a column (of a row) is not known; one at least is known.
    """
    word = word_of(instance)
    matrices = {
        name: read_only_matrix(getattr(instance, name), f"{word}: {name}") for name in "AB"
    }
    refuse_where(~np.isfinite(matrices["A"]), matrices["A"], f"{word}: A")
    refuse_where(np.isinf(matrices["B"]), matrices["B"], f"{word}: B")
    if len(matrices["A"]) != matrices["B"].shape[axis]:
        needed = "they need the same number of rows" if axis == 0 else "B needs m columns"
        raise ModelError(
            f"{word}: A of shape {matrices['A'].shape} and B of shape {matrices['B'].shape} were"
            f" given; {needed}, one for each equation{'' if axis == 0 else ' (row of A)'}"
        )
    if np.all(np.isnan(matrices["B"])):
        raise ModelError(
            f"{word}: B of shape {matrices['B'].shape} is NaN throughout, so that no equation is"
            f" known; give what is known, or leave {word} out of the model"
        )
    for name, matrix in matrices.items():
        object.__setattr__(instance, name, matrix)


def refuse_where(wrong: Mask, matrix: Array, what: str) -> None:
    """A ``ModelError`` that names the first wrong entry of a matrix."""
    if wrong.any():
        row, column = (int(k) for k in np.argwhere(wrong)[0])
        raise ModelError(
            f"{what}[{row}, {column}]={matrix[row, column]} was given; finite numbers are needed"
        )


def same_matrix(one: Array, other: Array) -> bool:
    """True if two matrices are equal, NaN to NaN."""
    return np.array_equal(one, other, equal_nan=True)


def read_only_matrix(value: object, what: str) -> Array:
    """A copy as float64 numbers that cannot be changed; a vector becomes one row."""
    if class_offers(value, "index", "to_numpy"):
        raise ModelError(
            f"{what}: {a_type(value)} was given, whose labels would be ignored; put its"
            " rows and columns in the order of the block and give .to_numpy()"
        )
    if is_sparse_matrix(value):
        value = value.toarray()
    try:
        matrix = np.atleast_2d(floats_of(value))
    except (NotANumber, TypeError, ValueError) as error:
        offender = f" with {error.value!r}" if isinstance(error, NotANumber) else ""
        raise ModelError(
            f"{what} of type {type(value).__name__}{offender} was given; a matrix of numbers, with"
            " rows of one length, is needed"
        ) from None
    if matrix.ndim != 2 or matrix.size == 0:
        raise ModelError(f"{what} of shape {matrix.shape} was given; a matrix is needed")
    matrix.flags.writeable = False
    return matrix


def without_former_options(
    successors: Mapping[str, str],
) -> Callable[[Callable[Arguments, ResultT]], Callable[Arguments, ResultT]]:
    """Return a decorator for a function that no longer has some options.

    ``successors`` has a sentence for each of them that names what to give instead, where
    ``{option}`` and ``{value}`` stand for what was given. Such a call raises a ``TypeError`` with
    the sentences of all former options in it.
    """

    def decorate(function: Callable[Arguments, ResultT]) -> Callable[Arguments, ResultT]:
        suggesting = suggests_options(function)

        @wraps(function)
        def checked(*arguments: Arguments.args, **options: Arguments.kwargs) -> ResultT:
            former = {name: value for name, value in options.items() if name in successors}
            if former:
                sentences = [
                    f"no option {name} any more;"
                    f" {successors[name].format(option=name, value=repr(value))}"
                    for name, value in former.items()
                ]
                raise TypeError(f"{function.__name__}() has {'. It has '.join(sentences)}")
            return suggesting(*arguments, **options)

        return checked

    return decorate


def suggests_options(function: FunctionT) -> FunctionT:
    """Return a function that says which option was probably meant where it does not have one.

    The call raises a ``TypeError``, as Python's own call would.
    """

    @wraps(function)
    def checked(*arguments: Any, **options: Any) -> Any:
        try:
            return function(*arguments, **options)
        except TypeError:
            message = unknown_option(function, arguments, options)
            if message:
                raise TypeError(message) from None
            raise

    CHECKED.add(checked)
    return cast("FunctionT", checked)


# Functions that ``suggests_options`` has returned.
CHECKED: set[Callable[..., Any]] = set()


def unknown_option(
    function: Callable[..., Any], arguments: Sequence[Any], options: Mapping[str, Any]
) -> str:
    """Return the message about an option that a function does not have; "" if it has them all."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return ""
    names = [p.name for p in parameters if p.kind is not p.POSITIONAL_ONLY]
    names = [name for name in names if name not in ("self", "cls")]
    unknown = next((name for name in options if name not in names), None)
    if unknown is None:
        return ""
    called = function.__qualname__
    if function.__name__ in ("__init__", "__new__"):
        made = arguments[0]
        called = (made if isinstance(made, type) else type(made)).__name__
    return f"{called}() has no option {unknown!r}; {meant(unknown, names, 'options')}"


def suggest_options(*classes: Any, methods: bool = False) -> None:
    """Let classes say which option was probably meant, as ``suggests_options`` does.

    Their constructors do, and with ``methods`` their public methods, too. Values that are no
    classes, and classes of errors, are left alone.
    """
    for kind in classes:
        if not isinstance(kind, type) or issubclass(kind, BaseException):
            continue
        bases = [base for base in kind.__mro__ if is_inside(base)]
        public = [name for base in bases for name in vars(base) if not name.startswith("_")]
        names = public if methods else []
        for name in ["__new__", "__init__", *names]:
            owner = next(base for base in kind.__mro__ if name in vars(base))
            member = vars(owner)[name]
            if name == "__new__" and isinstance(member, staticmethod):
                if member.__func__ not in CHECKED:
                    setattr(owner, name, staticmethod(suggests_options(member.__func__)))
            elif isinstance(member, FunctionType) and member not in CHECKED:
                setattr(owner, name, suggests_options(member))
