"""What pictures share: axes, colours, names on axes, and which answers have which picture."""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec

import numpy as np

from mcframe.contracts.arrays import Array, IntArray, Shape
from mcframe.contracts.errors import ModelError
from mcframe.contracts.showing import one_line
from mcframe.contracts.validators import a_type, suggests_options

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Options = ParamSpec("Options")

# The palette of Okabe and Ito (2008), which all readers can tell apart; yellow is too faint for
# lines on white.
BLUE, VERMILLION, GREEN = "#0072b2", "#d55e00", "#009e73"
COLOURS = (BLUE, VERMILLION, GREEN, "#cc79a7", "#e69f00", "#56b4e9", "#000000")
LINES = ("-", "--", "-.", ":")
GREY, PALE = "0.55", "0.93"
# Values run from dark blue to yellow, in equal steps for readers with any colour vision, and no
# value is grey.
MAP = "viridis"
# Inches of new figures, those of maps with names of columns below.
SIZE, SIZE_OF_MAP = (5.6, 3.6), (5.6, 4.8)
# Characters of a name that are shown, of one that shares its side with others, and of one that
# has an axis for itself; inches between two names along an axis, and inches of a character.
MOST_CHARACTERS, SHORT, LONG, SPACING, PER_CHARACTER = 24, 18, 40, 0.17, 0.085
# Points of a scatter, and pixels along a side of a map. Of more points some are drawn at random,
# and several rows or columns share a pixel.
MOST_POINTS, MOST_PIXELS = 5_000, 400

# The pictures by name: the function, and the classes of answers that it draws.
PICTURES: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}


def picture_of(
    *kinds: str, size: tuple[float, float] = SIZE
) -> "Callable[[Callable[Options, Any]], Callable[Options, Axes]]":
    """Return a decorator for a function that draws answers of these classes into ``ax``.

    Without ``ax`` the function is given those of a new figure of this size. An answer of another
    class raises a ``ModelError``.
    """

    def decorate(function: Callable[Options, Any]) -> "Callable[Options, Axes]":
        name = function.__name__

        @wraps(function)
        def drawn(answer: Any, *arguments: Any, ax: Any = None, **options: Any) -> Any:
            if not {base.__name__ for base in type(answer).__mro__} & set(kinds):
                raise ModelError(
                    f"{name}: an object of the class {type(answer).__name__} was given;"
                    f" {' or '.join(kinds)} is needed"
                )
            return function(answer, *arguments, ax=axes_for(name, ax, size), **options)

        drawn = suggests_options(drawn)
        PICTURES[name] = drawn, kinds
        return drawn  # type: ignore[return-value]  # whose options are those of the function

    return decorate


def axes_for(name: str, ax: Any, size: tuple[float, float]) -> Any:
    """Return the given axes, or those of a new figure of pyplot, which notebooks show."""
    try:
        from matplotlib import pyplot as plt
        from matplotlib.axes import Axes
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f'{name}: pictures need {error.name}; get it with pip install "mcframe[plot]"',
            name=error.name,
        ) from error
    if ax is None:
        _, ax = plt.subplots(figsize=size, layout="constrained")
    elif not isinstance(ax, Axes):
        raise ModelError(
            f"{name}: ax is {a_type(ax)}; Axes of matplotlib are needed, as from"
            " matplotlib.pyplot.subplots(), or None for a new figure"
        )
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def shown(value: object, most: int = MOST_CHARACTERS) -> str:
    """Return a name as a picture writes it: short, on one line, and without mathematics.

    Matplotlib reads what stands between dollar signs as a formula, and leaves a label that begins
    with _ out of a legend.
    """
    text = one_line(value)
    if len(text) > most:  # long names often differ at their ends
        text = f"{text[: most // 2]}…{text[len(text) - (most - 1) // 2 :]}"
    return (f" {text}" if text.startswith("_") else text).replace("$", r"\$")


def axis_words(name: object) -> str:
    """Return the name of a class, or the text of one of its objects, as words of an axis.

    ``RelativeDeviance(block=None)`` is the relative deviance; other text stays as it is.
    """
    whole = re.fullmatch(r"([A-Z]\w*[a-z]\w*)(?:\((.*)\))?", str(name))
    if whole is None:
        return str(name)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", whole[1]).split(" ")
    text = " ".join(word if word.isupper() else word.lower() for word in words)
    block = re.search(r"\bblock='([^']*)'", whole[2] or "")
    return f"{text} of {block[1]}" if block else text


def name_places(axis: Any, names: Sequence[Any], across: bool) -> None:
    """Write names along an axis at 0, 1, 2, ...; where there is no room for all, every second ...

    Parameters
    ----------
    axis : the ``xaxis`` or ``yaxis`` of axes
    names : one for each place
    across : True for the x axis, whose names are turned where they are long
    """
    box, figure = axis.axes.get_window_extent(), axis.figure
    inches = max(float(box.width if across else box.height) / figure.dpi, SPACING)
    step = int(np.ceil(len(names) * SPACING / inches))
    places = range(0, len(names), step)
    texts = [shown(names[place], SHORT if across else MOST_CHARACTERS) for place in places]
    longest = max((len(text) for text in texts), default=0) * PER_CHARACTER
    turned = across and longest * len(texts) > inches
    axis.set_ticks(places, texts, fontsize="small", rotation=90.0 if turned else 0.0)


def tables_of_answer(answer: Any) -> Any:
    """The tables of the rows that an answer is about, by block."""
    return answer.tables if hasattr(answer, "tables") else answer.problem.tables


def column_labels(table: Any) -> list[Any]:
    """The names of the columns of a block, or their positions."""
    return list(range(table.shape[1])) if table.names is None else list(table.names)


def some(n: int, most: int = MOST_POINTS) -> IntArray:
    """Return positions of n points in their order, ``most`` of them at random where n is more."""
    if n <= most:
        return np.arange(n)
    return np.sort(np.random.default_rng(0).choice(n, most, replace=False))


def sums_of_groups(shape: Shape, rows: IntArray, columns: IntArray, values: Any = None) -> Any:
    """Return sums of values at some cells of a table, 1 each by default, one for each pixel.

    In a large table neighbouring rows or columns share a pixel.
    """
    n_rows, n_columns = (min(n, MOST_PIXELS) for n in shape)
    at = (rows * n_rows // shape[0]) * n_columns + columns * n_columns // shape[1]
    return np.bincount(at, values, minlength=n_rows * n_columns).reshape(n_rows, n_columns)


def cells_of_groups(shape: Shape) -> Array:
    """Return how many cells of a table each pixel stands for."""
    sides = [np.bincount(np.arange(n) * min(n, MOST_PIXELS) // n) for n in shape]
    return np.outer(*sides).astype(float)


def draw_map(ax: "Axes", shape: Shape, pixels: Array, **options: Any) -> Any:
    """Draw pixels as an image over the positions of the rows and columns of a table."""
    extent = (-0.5, shape[1] - 0.5, shape[0] - 0.5, -0.5)
    return ax.imshow(pixels, aspect="auto", interpolation="nearest", extent=extent, **options)


def styles() -> Iterator[dict[str, str]]:
    """Yield colours and dashes of lines, which differ as long as there are some."""
    for dash in LINES:
        for colour in COLOURS:
            yield {"color": colour, "linestyle": dash}
