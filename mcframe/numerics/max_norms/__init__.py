"""The max norm of a matrix, its factors, and its dual."""
