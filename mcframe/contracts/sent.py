"""Values that are sent to where the rows are: their marker, and names that no others have."""

import itertools
import os

COUNTER = itertools.count()


class Broadcast:
    """An attrs class of arrays that every part of the rows is given as they are."""


def fresh_key() -> str:
    """A name that no other values have, in this process or in one that it sends them to."""
    return f"{os.getpid()}-{os.urandom(4).hex()}-{next(COUNTER)}"
