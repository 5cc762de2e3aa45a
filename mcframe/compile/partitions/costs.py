"""Bytes that partitions take, and that the answers of a round take on their way."""

from mcframe.compile.partitions.part import BYTES_AT_WORK, BYTES_PER_ENTRY
from mcframe.model import Block, Model
from mcframe.model.partitioned import PartitionedData

# How many answers a task on a cluster adds up, a power of 2 so that it is part of the pairwise
# tree. Twice as many are fewer tasks, and more that one worker holds and fetches in turn.
FAN = 8
# Bytes of all answers of a round that the driver fetches and adds up itself: with 32 partitions on
# two local workers their tree took as long at 20 MB, half as long again at 4 MB, and 0.7 of the
# time at 160 MB.
TOGETHER = 16_000_000


def bytes_of_equations(width: int) -> int:
    """Normal equations of one column, of one partition or of all: what slabs are cut by."""
    return 8 * (width * (width + 1) // 2 + width)


def brought(n_partitions: int, answer: int) -> int:
    """The bytes that come to the driver for the sum of answers of so many bytes."""
    return answer if n_partitions * answer > TOGETHER else n_partitions * answer


def held(n_partitions: int) -> int:
    """How many answers a process holds at most that adds all of them up as they come.

    A sum for each level of the tree, the next answer, and one more where two are added.
    """
    return n_partitions.bit_length() + 2


# What an entry has once; all else it has for each number of z.
VALUE = 8
# Of entries of several blocks: their order by columns, and the rows and columns of their block.
ORDER, PLACES = 4, 8
# The places of the effects of classes, each; factors of losses; offsets in the predictor.
PLACE_OF_CLASS, FACTOR, OFFSET = 4, 8, 8


def bytes_compiled(model: Model, data: PartitionedData, p: int) -> int:
    """Bytes of partition p, compiled, with the numbers at its entries, less a pointer a row.

    Where data do not say how many entries each block has, that of the most bytes has all.
    """
    blocks = [block for block in model.blocks if block.name in data.blocks]
    each = [bytes_of_entry(block, data, len(blocks) > 1) for block in blocks]
    counted = getattr(data, "block_entries", None)
    if counted is None:
        return max(each, default=0) * data.n_entries(p)
    return sum(own * counted(block.name, p) for block, own in zip(blocks, each, strict=True))


def bytes_of_entry(block: Block, data: PartitionedData, several: bool) -> int:
    """Bytes of an entry of a block, one of ``several`` or alone.

    Where data do not say what else entries have than their values, they have all that there is.
    """
    known, width = getattr(data, "additions", None), block.likelihood.width
    added = ("weight", "offset") if known is None else known(block.name)
    shifted = "offset" in added or "exposure" in added
    size = VALUE + width * (BYTES_PER_ENTRY - VALUE)
    size += width * ORDER * several + PLACES * (several or width > 1)
    size += width * PLACE_OF_CLASS * (width > 1 and bool(block.bias))
    size += FACTOR * ("weight" in added or bool(block.standardize))
    # Offsets of a location are taken off its values.
    return size + width * OFFSET * (shifted and not block.likelihood.location)


def bytes_at_work(model: Model, data: PartitionedData, p: int) -> int:
    """Bytes of partition p while a process reads, compiles or asks it, at most."""
    widest = max((block.likelihood.width for block in model.blocks), default=1)
    return bytes_compiled(model, data, p) + BYTES_AT_WORK * widest * data.n_entries(p)
