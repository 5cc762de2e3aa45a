"""What the ten cases share: where the data lie, and one look for the pictures."""

import os
import pathlib
import sys

from matplotlib.figure import Figure

OURS, PLAIN, DATA = "tab:blue", "tab:orange", "0.4"


def data_file(name):
    """The path of a file in the folder that MCFRAME_DATA names; without it the script ends."""
    folder = os.environ.get("MCFRAME_DATA")
    if not folder:
        sys.exit(
            f"This case needs the file {name}. Set the environment variable MCFRAME_DATA to the"
            " folder that holds it."
        )
    path = pathlib.Path(folder, name)
    if not path.is_file():
        sys.exit(f"This case needs the file {name}, and MCFRAME_DATA={folder} does not hold it.")
    return path


def axes(panels=1, **labels):
    """Axes side by side without a frame on top and right, the first with these labels."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained", facecolor="white")
    drawn = [figure.add_subplot(1, panels, k + 1) for k in range(panels)]
    for axis in drawn:
        axis.spines[["top", "right"]].set_visible(False)
    drawn[0].set(**labels)
    return drawn[0] if panels == 1 else drawn


def save(axis, name):
    """Write the picture into the folder given on the command line, here by default."""
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    axis.figure.savefig(folder / f"{name}.png", dpi=90)
