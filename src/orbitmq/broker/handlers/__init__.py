"""One conversation with a broker per file: request codes, and who answers them."""
