"""Linear equations A Z = B in a matrix Z, all or some of them known."""
