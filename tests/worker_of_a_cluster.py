"""What every worker of a cluster of these tests needs: workers are forks of a process with it.

To import it, and to load compiled loops, takes two seconds, and the tests start some thirty
workers, most of them in the place of one that was killed.
"""

import gc
import warnings

import distributed  # noqa: F401
import numpy as np

import mcframe as mc
from mcframe.backends import Alternating
from mcframe.partitions.partitioned_data import RowsInMemory

with warnings.catch_warnings():
    warnings.simplefilter("ignore", mc.NotCertifiedWarning)
    mc.fit(
        mc.Model([mc.Block("x", mc.Gaussian(), bias=True)], [mc.NuclearNorm(0.1)]),
        RowsInMemory({"x": np.eye(4)}, 2),
        backend=Alternating(),
        max_iter=1,
        n_jobs=1,  # a process of several threads is not one to fork
    )
gc.freeze()  # or each worker would copy the memory that its collector looks through
