"""What reaches outside the program, and the only files that may reach for it.

Clock, chance, threads, sockets and disk are arguments everywhere else; that is what lets a whole
cluster run in virtual time on faulty disks from a seed.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tests.architecture.sources import Module, Touch


@dataclass(frozen=True)
class Seam:
    """Names that only some places may touch. A name covers all that lies under it.

    A place is a path below the package; one that ends in a slash is a whole room. ``homes`` lists
    the only places, or, with a leading ``!``, the places where it is barred.
    """

    names: frozenset[str]
    homes: tuple[str, ...]
    instead: str

    def allows(self, place: str) -> bool:
        barred = [home.removeprefix("!") for home in self.homes if home.startswith("!")]
        if barred:
            return not any(_lies_in(place, home) for home in barred)
        return any(_lies_in(place, home) for home in self.homes)


# testing/ stands in for the seams, so it must touch them: it is free of all of these laws.
FREE = "testing/"

SEAMS = (
    Seam(
        frozenset(
            {"time", "sched", "datetime.datetime.now", "datetime.datetime.utcnow"}
            | {"datetime.datetime.today", "datetime.date.today"}
        ),
        homes=("clock.py",),
        instead="take a Clock (orbitmq.clock)",
    ),
    Seam(
        frozenset({"random", "secrets", "uuid", "os.urandom", "os.getrandom", "numpy.random"}),
        homes=("randomness.py",),
        instead="take a Randomness (orbitmq.randomness)",
    ),
    Seam(
        frozenset({"threading", "_thread", "concurrent", "multiprocessing", "queue", "os.fork"}),
        homes=("threads.py",),
        instead="take Workers (orbitmq.threads)",
    ),
    Seam(
        frozenset({"subprocess", "signal", "os.kill", "os.execv", "os._exit"}),
        homes=("cli/", "spark/", "client/run.py"),
        instead="leave processes and signals to cli/",
    ),
    Seam(
        frozenset({"socket", "ssl", "select", "selectors", "socketserver", "http", "urllib"}),
        homes=("net/",),
        instead="go through net/",
    ),
    Seam(
        frozenset({"asyncio", "uvloop"}),
        homes=(
            *("net/", "client/", "nameserver/", "replication/", "failover/", "broker/"),
            *("dashboard/", "cli/", "blocking/", "embedded.py"),
        ),
        instead="decide in plain functions and let the caller await",
    ),
    Seam(
        frozenset(
            {"builtins.open", "io.open", "io.FileIO", "mmap", "fcntl", "tempfile", "shutil", "glob"}
            | {
                f"os.{call}"
                for call in ("open", "fsync", "fdatasync", "sync", "truncate", "ftruncate")
            }
            | {f"os.{call}" for call in ("read", "pread", "preadv", "write", "pwrite", "pwritev")}
            | {f"os.{call}" for call in ("sendfile", "posix_fallocate", "posix_fadvise", "stat")}
            | {
                f"os.{call}"
                for call in ("rename", "replace", "remove", "unlink", "link", "symlink")
            }
            | {
                f"os.{call}"
                for call in ("mkdir", "makedirs", "rmdir", "listdir", "scandir", "walk")
            }
            | {"pathlib.Path", "?.write_text", "?.write_bytes"}
        ),
        homes=(
            *("store/disk/disk.py", "settings.py", "nameserver/kv_file.py"),
            *("client/producer/outbox/file.py", "client/consumer/offsets/offset_file.py"),
            "client/observe/receipt_log.py",
            *("spark/", "cli/", "dashboard/", "embedded.py", "demo/"),
        ),
        instead="make file calls in store/disk/disk.py",
    ),
    Seam(
        frozenset({"os.environ", "os.environb", "os.getenv", "os.putenv"}),
        homes=("settings.py", "cli/", "spark/sessions.py"),
        instead="take settings",
    ),
    Seam(
        frozenset({"builtins.print", "builtins.input", "sys.stdin", "sys.stdout", "sys.stderr"}),
        homes=("cli/", "demo/"),
        instead="log, or return the text",
    ),
    # Bytes rooms know nothing of the machine, not even the process id or a path.
    Seam(
        frozenset({"os", "pathlib", "logging", "platform"}),
        homes=("!message/", "!wire/"),
        instead="take it as an argument",
    ),
    # Hidden from these laws: a module named at run time, and code made at run time.
    Seam(
        frozenset({"builtins.__import__"}),
        homes=("__init__.py",),  # the door: its lazy names stand below TYPE_CHECKING too
        instead="import by a literal name",
    ),
    Seam(
        frozenset({"builtins.exec", "builtins.eval"}),
        homes=("wire/fields.py",),  # compiles one writer for each header class, for speed
        instead="write the code out",
    ),
)


def faults(modules: Iterable[Module]) -> Iterator[str]:
    """Yield a line for each name that is touched outside its homes."""
    for module in modules:
        if module.place.startswith(FREE):
            continue
        for line, name, instead in sorted({*_faults(module)}):
            yield f"{module.path}:{line}: {name} may not be touched here; {instead}"


def _faults(module: Module) -> Iterator[tuple[int, str, str]]:
    for seam in SEAMS:
        if not seam.allows(module.place):
            for touch in module.touches:
                if any(_reaches(touch, name) for name in seam.names):
                    yield touch.line, touch.name, seam.instead


def _reaches(touch: Touch, name: str) -> bool:
    if touch.name.endswith(".*"):
        base = touch.name.removesuffix(".*")
        return f"{name}.".startswith(f"{base}.") or base.startswith(f"{name}.")
    return touch.name == name or touch.name.startswith(f"{name}.")


def _lies_in(place: str, home: str) -> bool:
    return place.startswith(home) if home.endswith("/") else place == home
