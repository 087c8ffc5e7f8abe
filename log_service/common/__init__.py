"""What every room shares: ids and epochs, error codes, the seams to the world, timers, and what a core returns.

Decides nothing and imports nothing of ours.
"""
