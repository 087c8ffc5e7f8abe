"""The ``tidelog`` command, one module per noun."""
