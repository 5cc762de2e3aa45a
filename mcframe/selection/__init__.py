"""Floor 7: one model at many weights."""

from mcframe.selection.paths import Path, path

__all__ = ["Path", "path"]
