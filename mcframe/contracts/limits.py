"""Sizes and counts that several parts of the package share; none of them changes an answer."""

__all__ = [
    "BATCH_ENTRIES",
    "BATCH_NUMBERS",
    "BISECTIONS",
    "CACHED_NUMBERS",
    "FEW_CLASSES",
    "MAX_FIRST_STEP",
    "MOST_CHARACTERS",
    "MOST_LISTED",
    "MOST_OPERATIONS",
    "MOST_STEPS",
    "MOST_TREND",
    "REFINEMENTS",
    "SMALL_ORDER",
    "STORED_NUMBERS",
]

#: Up to so many classes arrays are taken class by class, and systems of classes are dense.
FEW_CLASSES = 16
#: Up to so many rows and columns together a method may take time with the cube of their number.
SMALL_ORDER = 400
#: Numbers that stay in the cache of a processor while they are worked on.
CACHED_NUMBERS = 32_768
#: Entries that are passed on at a time, from and to files.
BATCH_ENTRIES = 1 << 18
#: Numbers that are worked on at a time where all of them would not fit into memory: 16 MB.
BATCH_NUMBERS = 2_000_000
#: Up to so many numbers are stored rather than computed anew: 0.4 GB.
STORED_NUMBERS = 50_000_000
#: Halvings of an interval, or doublings: to the last bit of numbers of one size.
BISECTIONS = 60
#: The most steps of an iteration inside another one; most end after a few.
MOST_STEPS = 200
#: How often a solution is refined by what rounding has left.
REFINEMENTS = 3
#: The longest first step of an iteration, in units of the length scale of a loss.
MAX_FIRST_STEP = 8.0
#: Up to so many operations, some seconds, a method is exact where a cheaper one is not.
MOST_OPERATIONS = 2e10
#: How many names, values or places a message lists; it counts the others.
MOST_LISTED = 5
#: How many characters of a value, or of a cell, are shown.
MOST_CHARACTERS = 120

#: The highest degree of polynomials of time: beyond it they swing at the ends of a series.
MOST_TREND = 3
