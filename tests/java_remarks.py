"""Remarks of refusals: what of Java's an answer of ours has to begin with."""

import re

_ADDRESS = re.compile(r"(?:127\.0\.0\.1|memory):\d+")


def begins_as_java_s(ours: str | None, java: str | None) -> bool:
    """Return whether a remark begins with Java's; where it names its FAQ, ours gives advice.

    The address of who asked is another in each case.
    """
    wanted = (java or "").partition("\nSee https://")[0].rstrip()
    return _anywhere(ours or "").startswith(_anywhere(wanted))


def _anywhere(remark: str) -> str:
    return _ADDRESS.sub("<address>", remark)
