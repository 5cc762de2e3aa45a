"""Rows that no process has all of: data in partitions, on disk or on a cluster, and their fits."""
