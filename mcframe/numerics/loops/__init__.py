"""Compiled loops over entries and over dense matrices."""
