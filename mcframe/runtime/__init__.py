"""The machine that computes: threads, memory, time, files of scratch, and progress."""
