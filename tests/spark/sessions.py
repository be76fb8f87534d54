"""All processes of a session, found by Linux's ``/proc``.

PySpark's daemon and its workers have a process group of their own: a signal to the driver's group
does not reach them. They end by themselves a moment after the driver's Java is gone.
"""

import os
import signal
from contextlib import suppress
from pathlib import Path

_SESSION = 3
"""Its place in ``/proc/PID/stat``, after the name of the program: state, parent, group, session."""
_DEAD = ("Z", "X")


def kill_session(leader: int) -> None:
    """Send SIGKILL to all processes of a session, until none is left but ended ones."""
    while living := members(leader):
        for member in living:
            with suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)


def members(leader: int) -> list[int]:
    """Return the ids of the living processes of a session."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(FileNotFoundError, ProcessLookupError):
                # The name may have blanks and parentheses.
                state = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(state[_SESSION]) == leader and state[0] not in _DEAD:
                    found.append(int(entry.name))
    return found
