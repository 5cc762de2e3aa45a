"""The machine's memory, and how much of it this process may take."""

import os
from contextlib import suppress
from pathlib import Path

__all__ = ["MEMORY_SHARE", "memory_gigabytes", "physical_gigabytes"]

# The part of the machine's memory that a fit may take.
MEMORY_SHARE = 0.7
# Where Linux says which control groups this process is in, and what these limit.
GROUPS, LIMITS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def physical_gigabytes() -> float:
    """The machine's memory; where it cannot be asked, 8."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    except (AttributeError, ValueError, OSError):
        return 8.0


def memory_gigabytes() -> float:
    """The memory that this process may take: the machine's, or a lower limit on it.

    Limits are those of a control group, by which containers have them, and of ``ulimit``.
    """
    return min([physical_gigabytes(), *(n_bytes / 1e9 for n_bytes in limits())])


def limits() -> list[int]:
    """The limits on this process that can be read, in bytes."""
    found = []
    with suppress(OSError):
        for line in GROUPS.read_text().splitlines():
            _, controllers, group = line.split(":", 2)
            for file in limit_files(controllers.split(","), group.lstrip("/")):
                with suppress(OSError, ValueError):  # not there, or "max"
                    found.append(int(file.read_text()))
    with suppress(ImportError):  # not on every system
        import resource

        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            limit = resource.getrlimit(kind)[0]
            if limit != resource.RLIM_INFINITY:
                found.append(limit)
    return found


def limit_files(controllers: list[str], group: str) -> list[Path]:
    """The files that may hold the limit of a control group, of version 2 or of version 1.

    Inside of a container its own group may be shown as the root.
    """
    if controllers == [""]:
        return [LIMITS / group / "memory.max", LIMITS / "memory.max"]
    if "memory" in controllers:
        root = LIMITS / "memory"
        return [root / group / "memory.limit_in_bytes", root / "memory.limit_in_bytes"]
    return []
