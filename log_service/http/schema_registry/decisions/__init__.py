"""Decisions of the registry, as plain functions over its state.

A decision that changes something returns the records to write and a result for the client. The
caller writes them and reads them back, and only then responds.

- ``decision``: the value that a decision about a change returns.
- ``compatibility``: compares a schema with earlier versions of its subject.
- ``completion``: adds metadata and rules of the previous version and of the settings to a schema.
- ``registration``: gives a schema its version and its id.
- ``tagging``: changes tags inside the text of a schema.
- ``relabelling``: registers a version again with other metadata and rules.
- ``lookup``: finds registered schemas.
- ``deletion``: removes versions, subjects and contexts.
- ``scope_changes``: changes settings and modes of subjects and contexts.
"""
