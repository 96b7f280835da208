"""The lake: the same records, rules and summaries in bulk, on Spark.

Nothing here is imported by the rest of the engine, and importing this package imports no Spark.
"""
