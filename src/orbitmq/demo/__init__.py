"""The demo: ``make demo`` or ``orbitmq demo``.

It starts a broker in this process, sends the orders of a small shop, has a Spark stream write them
to Parquet while they arrive, and compares the topic with the files.
"""
