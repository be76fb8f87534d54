"""Messages given to user code: concurrent, ordered, iterated; retries."""
