"""The command line: one module for each family of commands, and what they print."""
