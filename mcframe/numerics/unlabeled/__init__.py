"""The losses of cells that are no entries: too many to be written out.

All that knows of them stands here: ``contract`` is what a block's cells must answer, ``uniform``
has one quadratic for all of them, ``blockwise`` reads them by blocks of rows, ``background`` adds
the blocks up for a program. It stands below the model, whose objective counts them, too.
"""
