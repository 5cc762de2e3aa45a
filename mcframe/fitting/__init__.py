"""The verbs that fit and verify, their answers, predictions, new rows and checkpoints.

The folder is not called ``fit``, since ``mcframe.fit`` is the public function.
"""
