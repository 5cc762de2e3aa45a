"""The machine's memory."""

import os

__all__ = ["MEMORY_SHARE", "physical_gigabytes"]

# The part of the machine's memory that a fit may take.
MEMORY_SHARE = 0.7


def physical_gigabytes() -> float:
    """The machine's memory; where it cannot be asked, 8."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):
        return 8.0
