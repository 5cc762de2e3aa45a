"""A picture of items that are pictures themselves: truth, what was observed, and answers."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mcframe.contracts.arrays import Array, Mask
from mcframe.contracts.errors import DataError

# Sky blue of the palette of Okabe and Ito (2008): all readers can distinguish it from every grey.
HIDDEN = np.array([86, 180, 233]) / 255
INCH = 0.92


def draw_pixels(
    path: str | os.PathLike[str],
    *,
    truth: Array,
    hidden: Mask,
    answers: Mapping[str, Array],
    titles: Sequence[str],
    heading: str,
    shape: tuple[int, int] = (8, 8),
) -> None:
    """Write a picture with a column for each item and a row for each of its versions.

    The first row is the truth, the second what was observed, hidden pixels in blue, then a row
    for each answer.

    Parameters
    ----------
    path : where to write; the ending says the format, such as .png, .pdf or .svg
    truth, hidden, answers : arrays (n_items, n_pixels)
        Grey values, 0 white and 1 black; answers by the name of their row.
    titles : one for each item
    shape : (height, width) of an item

    Raises
    ------
    DataError
        If the arrays differ in shape or do not fit ``shape``.
    ModuleNotFoundError
        If matplotlib is not installed.
    """
    from matplotlib.patches import Patch

    check_shapes(truth, {"hidden": hidden, **answers}, titles, shape)
    grey = {"truth": truth, "observed": truth, **answers}
    # Red, green and blue; what lies outside [0, 1] is cut off.
    colours: dict[str, Any] = {
        name: np.repeat(1.0 - np.clip(values, 0.0, 1.0)[..., np.newaxis], 3, axis=-1)
        for name, values in grey.items()
    }
    colours["observed"][hidden] = HIDDEN
    figure = new_figure((INCH * len(titles) + 1.8, INCH * len(colours) + 1.3))
    axes = figure.subplots(len(colours), len(titles), squeeze=False)
    for line, (name, pixels) in zip(axes, colours.items(), strict=True):
        for axis, one in zip(line, pixels, strict=True):
            axis.imshow(one.reshape(*shape, 3), interpolation="nearest")
            axis.set(xticks=[], yticks=[])
            axis.spines[:].set_color("0.7")
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=10)
    for axis, title in zip(axes[0], titles, strict=True):
        axis.set_title(title, fontsize=11)
    figure.suptitle(heading, fontsize=12)
    patch = Patch(facecolor=tuple(HIDDEN), edgecolor="0.7", label="hidden pixel")
    figure.legend(handles=[patch], loc="outside lower center", frameon=False, fontsize=10)
    figure.savefig(path, dpi=150)


def check_shapes(
    truth: Array, others: Mapping[str, Any], titles: Sequence[str], shape: tuple[int, int]
) -> None:
    """Demand one row an item, one column a pixel, of every array."""
    expected = (len(titles), shape[0] * shape[1])
    for name, values in {"truth": truth, **others}.items():
        if np.shape(values) != expected:
            raise DataError(
                f"{name} has the shape {np.shape(values)}; {expected} is needed, for"
                f" {len(titles)} titles and pictures of {shape[0]} x {shape[1]}"
            )


def new_figure(inches: tuple[float, float]) -> Any:
    """Make a figure that is not in pyplot's list of open figures."""
    from matplotlib.figure import Figure

    return Figure(figsize=inches, layout="constrained", facecolor="white")
