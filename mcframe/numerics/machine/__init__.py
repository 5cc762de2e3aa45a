"""The machine: threads, memory, time, and what is compiled."""
