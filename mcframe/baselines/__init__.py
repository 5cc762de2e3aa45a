"""Floor 8: what others would do with the same table: the baselines of the papers."""
