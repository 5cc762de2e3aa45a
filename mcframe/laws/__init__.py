"""Floor 6: the public harness. ``mc.laws.check_likelihood(MyLoss())`` and its siblings."""
