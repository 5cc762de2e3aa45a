"""The memory that a process has held: what benchmarks tell of this one, and of workers."""

import pathlib
import resource
import sys

__all__ = ["peak_megabytes"]


def peak_megabytes():
    """The most memory that this process has held, imports and data included.

    Where the system tells it, VmHWM: ``ru_maxrss`` also counts what the process that started
    this one held.
    """
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1024**2 if sys.platform == "darwin" else 1024)
