"""``orbitmq pipeline``: the Spark jobs as commands, one module each."""
