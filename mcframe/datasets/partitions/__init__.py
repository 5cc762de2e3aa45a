"""Rows in partitions: a table of any source written to a folder, and read as ``fit`` takes it."""
