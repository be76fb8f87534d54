"""Clients in other languages: a package that others wrote, and a small program of ours on it.

The package and all that it needs is pinned beside the program: ``node/package-lock.json``,
``go/go.sum``. It is fetched once into a directory of ``.counterparts``; a change of what is pinned
fetches it anew.
"""

import hashlib
import json
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from tests.interop import machine
from tests.interop.machine import DOWNLOAD_SECONDS, Counterpart, run

HERE = Path(__file__).parent
COMPLETE = ".complete"


class OtherClient(ABC):
    """One client; what it can be asked for is told by ``client_process``."""

    language: ClassVar[str]
    package: ClassVar[str]
    installed_by: ClassVar[tuple[str, ...]]
    """Commands without which it can't be installed."""
    run_by: ClassVar[tuple[str, ...]]
    """Commands without which it can't run."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.package} {self.version}>"

    @property
    @abstractmethod
    def version(self) -> str:
        """The version of the package that is pinned."""

    @property
    @abstractmethod
    def sources(self) -> tuple[Path, ...]:
        """The files that what is installed comes from."""

    @property
    @abstractmethod
    def command(self) -> tuple[str, ...]:
        """What starts the program; its arguments come behind."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables that the program needs."""
        return {}

    @property
    def place(self) -> Path:
        """The directory that holds, or would hold, what is installed."""
        return machine.HOME / f"{self.package}-{self.version}"

    def missing(self) -> str | None:
        """Return why tests with it can't run here, None if they can."""
        for command in self.run_by:
            if shutil.which(command) is None:
                return f"no {command} on the PATH"
        if not self._is_complete():
            return f"{self.package} {self.version} is not in .counterparts"
        return None

    def ensure(self) -> Counterpart:
        """Install it if it is not here; what stopped half way starts anew."""
        name, where = f"{self.package} {self.version}", f"{machine.HOME.name}/{self.place.name}"
        if self._is_complete():
            return Counterpart(name, "found", where)
        for command in self.installed_by:
            if shutil.which(command) is None:
                return Counterpart(name, "missing", f"{command} is needed to install it")
        trouble: str | None = None
        for _attempt in range(2):  # a registry may hiccup
            shutil.rmtree(self.place, ignore_errors=True)
            self.place.mkdir(parents=True)
            trouble = self._install()
            if trouble is None:
                (self.place / COMPLETE).write_text(self._fingerprint())
                return Counterpart(name, "installed", where)
        return Counterpart(name, "missing", f"{self.installed_by[-1]} could not: {trouble}")

    @abstractmethod
    def _install(self) -> str | None:
        """Install it into ``place``, which is empty; return what went wrong, None if nothing."""

    def _is_complete(self) -> bool:
        mark = self.place / COMPLETE
        return mark.is_file() and mark.read_text() == self._fingerprint()

    def _fingerprint(self) -> str:
        """Return what an installation is marked with: it changes when its sources do."""
        digest = hashlib.sha256()
        for file in self.sources:
            digest.update(file.read_bytes())
        return digest.hexdigest()


class NodeClient(OtherClient):
    """The client that teams on Node use, in JavaScript."""

    language = "node"
    package = "ali-ons"
    installed_by = ("node", "npm")
    run_by = ("node",)

    @property
    def version(self) -> str:
        wanted = json.loads((HERE / "node" / "package.json").read_text())
        return str(wanted["dependencies"][self.package])

    @property
    def sources(self) -> tuple[Path, ...]:
        return (HERE / "node" / "package.json", HERE / "node" / "package-lock.json")

    @property
    def command(self) -> tuple[str, ...]:
        return ("node", str(HERE / "node" / "client.js"))

    @property
    def environment(self) -> Mapping[str, str]:
        return {"NODE_PATH": str(self.place / "node_modules")}

    def _install(self) -> str | None:
        for file in self.sources:
            shutil.copy(file, self.place)
        # What a package would like to run on our machine while it is installed, it may not.
        install = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        return run(install, DOWNLOAD_SECONDS, directory=self.place)


class GoClient(OtherClient):
    """RocketMQ's own client in Go."""

    language = "go"
    package = "rocketmq-client-go"
    installed_by = ("go",)
    run_by = ()

    @property
    def version(self) -> str:
        wanted = (HERE / "go" / "go.mod").read_text()
        pinned = re.search(rf"^require \S+/{self.package}/v2 v(\S+)$", wanted, re.MULTILINE)
        assert pinned is not None, f"go.mod does not require {self.package}"
        return pinned[1]

    @property
    def sources(self) -> tuple[Path, ...]:
        return tuple(HERE / "go" / name for name in ("go.mod", "go.sum", "main.go"))

    @property
    def command(self) -> tuple[str, ...]:
        return (str(self.place / "client"),)

    def _install(self) -> str | None:
        client = str(self.place / "client")
        build = ["go", "build", "-mod=readonly", "-buildvcs=false", "-o", client]
        # Without C: a Go that finds no C compiler would refuse to build.
        no_c = {"CGO_ENABLED": "0"}
        return run(build, DOWNLOAD_SECONDS, directory=HERE / "go", environment=no_c)


NODE = NodeClient()
GO = GoClient()
OTHER_CLIENTS: tuple[OtherClient, ...] = (NODE, GO)
