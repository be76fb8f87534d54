"""Typed JSON bodies of requests and answers, one module per subject."""
