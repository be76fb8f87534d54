"""Values for error messages, of bounded length."""

__all__ = ["shown_int"]

_BITS_SHOWN = 128


def shown_int(value: int) -> str:
    """Return a number as text, or its size: Python refuses to format over some 4300 digits.

    >>> shown_int(-7), shown_int(10**5000)
    ('-7', 'a number of 16610 bits')
    """
    bits = value.bit_length()
    return str(value) if bits <= _BITS_SHOWN else f"a number of {bits} bits"
