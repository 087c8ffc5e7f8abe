"""One module per API with its request and response as plain dataclasses, generated; nothing is imported before it is used."""
