"""The whole way in one terminal: ``make demo``, or ``orbitmq demo``.

A broker in this process, the orders of a small shop, a Spark stream that writes them to Parquet
while they arrive, and a query over topic and files that finds both equal.
"""
