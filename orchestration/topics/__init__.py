"""Topics as assets.

- ``spec``: the declaration of a topic, and the run that creates it. ``inputs``: what tables and marts are made of.
"""
