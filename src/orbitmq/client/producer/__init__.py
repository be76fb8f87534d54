"""The producer: life, options, transactions, request–reply, delayed messages."""
