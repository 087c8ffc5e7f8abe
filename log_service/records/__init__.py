"""Record batches (magic 2): views over bytes, building, compression, validation, and the way to Arrow columns.

No input or output happens here. A batch is opened record by record only where somebody asks for its records.
"""
