"""The metadata that the log of metadata records describes: an immutable image, and the deltas that lead from one to the next."""
