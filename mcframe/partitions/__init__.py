"""Rows that no process has all of, in partitions, on disk or on a cluster.

The only package that knows of partitions, chunks and Dask. Nothing below the entry points imports
it: it registers itself as a ``RowStore``, for which the verbs ask.
"""

from mcframe.contracts.row_stores import register
from mcframe.partitions.store import PartitionStore

register(PartitionStore())
