"""The losses of cells that are no entries: too many to be written out."""
