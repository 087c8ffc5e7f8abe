"""The producer, against a scripted broker in virtual time."""
