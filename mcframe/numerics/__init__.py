"""Arithmetic that knows no models."""
