"""The admin, against a scripted broker in virtual time."""
