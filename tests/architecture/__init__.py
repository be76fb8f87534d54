"""The laws of the code, each a function from parsed modules to the faults found in them."""
