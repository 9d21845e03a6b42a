"""Bodies of finished streams, moved out of the log into files that it can check."""
