"""Floor 1: arithmetic that knows no models."""
