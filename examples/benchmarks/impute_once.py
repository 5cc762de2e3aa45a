"""One measured imputation, in a process of its own.

    python impute_once.py METHOD TABLE.npz OUT.npz

Imports and a toy table come before the clock starts, which counts from the DataFrame with holes
to the one without: seconds of the processor, since other work on the machine has no part in them.
"""

import sys
import time

import numpy as np
from imputers import method
from mixed_tables import Coded, toy


def main(name, given, out):
    """Warm up, fill the table, write the codes and the seconds."""
    chosen, table = method(name), Coded.load(given)
    chosen.warm_up(toy().frame())
    frame = table.frame()
    began = time.process_time()
    filled = chosen.filled(frame)
    seconds = time.process_time() - began
    np.savez(out, codes=table.codes_of(filled), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
