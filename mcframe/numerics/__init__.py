"""Floor 2: arithmetic that knows no models."""
