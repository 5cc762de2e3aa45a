"""Spectra of matrices known by their products: shrinkage, leading vectors, bounds on norms."""
