"""Starts, watches, restarts and stops the processes of one tidelog installation."""
