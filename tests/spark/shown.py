"""What Spark shows of an error of ours."""


def last_line(error: Exception) -> str:
    """Return the last line of the Python traceback, without what Spark appends.

    That is the state of its errors, and of a stream the query and its plan.
    """
    python, *_of_the_query = str(error).split("=== Streaming Query ===")
    while (shorter := python.rstrip()).split(" ")[-2:-1] == ["SQLSTATE:"]:
        python = shorter.rsplit("SQLSTATE:", 1)[0]
    return python.rstrip().splitlines()[-1]
