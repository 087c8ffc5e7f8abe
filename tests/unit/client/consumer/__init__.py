"""The consumer, against a scripted broker and group in virtual time."""
