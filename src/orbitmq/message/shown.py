"""Values as an error's message shows them: never so long, or so large, that it fails itself."""

__all__ = ["shown_int"]

_BITS_SHOWN = 128


def shown_int(value: int) -> str:
    """Return a number for people; past some 4300 digits Python refuses to write one at all.

    >>> shown_int(-7), shown_int(10**5000)
    ('-7', 'a number of 16610 bits')
    """
    bits = value.bit_length()
    return str(value) if bits <= _BITS_SHOWN else f"a number of {bits} bits"
