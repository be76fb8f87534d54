"""What the machine gives: commands, and Debian packages that have those it lacks.

Everything is installed from where the machine is set up to install from.
"""

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

HOME = Path(__file__).parents[2] / ".counterparts"
"""Where everything goes that is not a package of the machine."""

INSTALL_SECONDS = 600
DOWNLOAD_SECONDS = 900
ON_THE_WAY = ("go: downloading ", "npm warn ", "npm WARN ")
"""How lines begin that are said whatever comes of it."""


class Counterpart(NamedTuple):
    """One line of the table: a thing the tests meet, and whether it is here."""

    name: str
    state: Literal["found", "installed", "missing", "skipped"]
    why: str


def install_debian_package(*names: str) -> str | None:
    """Install the first of some packages that there is; return what kept us from it, if so."""
    apt = shutil.which("apt-get")
    if apt is None:
        return "this machine has no apt-get to do it with"
    as_root = [] if os.geteuid() == 0 else [shutil.which("sudo") or "", "-n"]
    if as_root and not as_root[0]:
        return "apt-get needs root or sudo"
    apt_get = (*as_root, apt, "-qq")
    update_package_lists(apt_get)
    trouble: str | None = None
    for name in names:
        install = [*apt_get, "-y", "--no-install-recommends", "install", name]
        trouble = run(install, INSTALL_SECONDS)
        if trouble is None:
            return None
    return trouble


def unpack_debian_package(name: str, place: Path) -> str | None:
    """Unpack a package below a place; return what kept us from it, if so.

    It is not installed, so nothing of it runs, such as the service that it brings.
    """
    apt, unpacker = shutil.which("apt-get"), shutil.which("dpkg-deb")
    if apt is None or unpacker is None:
        return "this machine has no apt-get and dpkg-deb to do it with"
    if os.geteuid() == 0:
        update_package_lists((apt, "-qq"))
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    trouble = run([apt, "-qq", "download", name], DOWNLOAD_SECONDS, directory=place)
    found = [*place.glob("*.deb")]
    if not found:
        return trouble or "nothing was downloaded"
    return run([unpacker, "-x", str(found[0]), str(place)], INSTALL_SECONDS)


@functools.cache
def update_package_lists(apt_get: tuple[str, ...]) -> None:
    """Ask once which packages there are; if that fails, stale lists may still do."""
    run([*apt_get, "update"], INSTALL_SECONDS)


def run(
    command: Sequence[str],
    seconds: int,
    *,
    directory: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> str | None:
    """Run a command to its end; return the first line it complained with, None if it went well."""
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", **(environment or {})},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    return complaint(done.stderr + done.stdout) or f"{command[0]} ended with {done.returncode}"


def complaint(output: str) -> str | None:
    """Return the first line of a failed command's output that tells something, None if none."""
    lines = (line.strip() for line in output.splitlines())
    told = (line[:200] for line in lines if line and not line.startswith(ON_THE_WAY))
    return next(told, None)
