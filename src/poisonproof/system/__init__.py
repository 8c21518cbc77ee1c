"""The machine: files, locks, threads, workers, memory, progress."""
