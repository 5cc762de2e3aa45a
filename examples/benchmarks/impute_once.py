"""One measured imputation, in a process of its own.

    python impute_once.py METHOD TABLE.npz OUT.npz MAX_SECONDS

Imports and a toy table come before the clock starts, which counts from the DataFrame with holes
to the one without: seconds of the processor, in which other work on the machine has no part. The
system ends the process by SIGXCPU when they are more than allowed.
"""

import resource
import sys
import time

import numpy as np
from imputers import method
from mixed_tables import Coded, toy


def main(name, given, out, max_seconds):
    """Warm up, fill the table, write the codes and the seconds."""
    chosen, table = method(name), Coded.load(given)
    chosen.warm_up(toy().frame())
    frame = table.frame()
    began = time.process_time()
    limit = int(began + float(max_seconds)) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
    filled = chosen.filled(frame)
    seconds = time.process_time() - began
    np.savez(out, codes=table.codes_of(filled), seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
