"""Request handlers, one module per API or family of APIs, for all of its versions."""
