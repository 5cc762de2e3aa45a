"""Floor 10: the commands of ``python -m mcframe``, one file each."""
