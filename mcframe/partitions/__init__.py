"""Programs whose rows are in partitions: the same questions, answered by sums over these."""
