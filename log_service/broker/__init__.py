"""The composition root of a node: the only package that knows every subsystem, and the handlers of the APIs."""
