"""The laws of the code, held to src/ and each shown to catch what it forbids."""

from graphlib import TopologicalSorter
from pathlib import Path
from types import ModuleType

import pytest

from tests.architecture import arrows, floors, seams, sizes, upkeep
from tests.architecture.sources import ROOT, Module, modules_below

SRC = modules_below(ROOT / "src")


def snippet(text: str, path: str = "orbitmq/wire/frame.py") -> list[Module]:
    return [Module(path, text)]


# The code as it stands.


def test_imports_follow_the_arrows() -> None:
    assert list(arrows.faults(SRC)) == []


def test_imports_inside_a_room_follow_its_floors() -> None:
    assert list(floors.faults(SRC)) == []


def test_no_folder_is_crowded() -> None:
    assert list(floors.crowds(SRC)) == []


def test_nothing_reaches_past_the_seams() -> None:
    assert list(seams.faults(SRC)) == []


def test_functions_and_files_are_small() -> None:
    assert list(sizes.faults(SRC, sizes.EXCEPTIONS)) == []


def test_every_module_has_a_test_file() -> None:
    assert list(upkeep.untested(SRC, ROOT / "tests", upkeep.COVERED_ELSEWHERE)) == []


def test_every_public_name_is_there_and_documented() -> None:
    assert list(upkeep.undocumented(SRC)) == []


def test_the_code_was_found() -> None:
    assert {"errors", "message", "wire", "net", "testing"} <= {module.room for module in SRC}


# Arrows.


def test_the_table_of_rooms_has_no_circle() -> None:
    TopologicalSorter(
        {
            room: {entry.partition(".")[0] for entry in entries - arrows.ANYTHING}
            for room, entries in arrows.MAY_IMPORT.items()
        }
    ).prepare()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("orbitmq/message/model.py", "from orbitmq.wire import frame"),
        ("orbitmq/message/ids.py", "from orbitmq.clock import Clock"),
        ("orbitmq/message/ids.py", "import orbitmq.clock"),
        ("orbitmq/wire/frame.py", "import orbitmq.net.dialer"),
        ("orbitmq/wire/frame.py", "def f():\n    from orbitmq.store import disk"),
        ("orbitmq/wire/frame.py", "from orbitmq import net"),
        ("orbitmq/wire/frame.py", "from orbitmq import Message"),
        ("orbitmq/wire/frame.py", "from . import codes"),
        ("orbitmq/wire/frame.py", "import importlib\nimportlib.import_module('orbitmq.net')"),
        ("orbitmq/wire/frame.py", "from importlib import import_module as m\nm('orbitmq.net')"),
        ("orbitmq/wire/frame.py", "__import__('orbitmq.net')"),
        ("orbitmq/wire/frame.py", "from orbitmq.message.record import _HEAD"),
        ("orbitmq/net/dialer.py", "from orbitmq.wire.headers.send import SendMessage"),
        ("orbitmq/net/dialer.py", "from orbitmq.wire import bodies"),
        ("orbitmq/net/dialer.py", "from orbitmq.store import disk"),
        ("orbitmq/broker/handlers/send.py", "from orbitmq.broker.server import Broker"),
        ("orbitmq/broker/replicas.py", "from orbitmq.broker.server import Broker"),
        ("orbitmq/broker/offsets.py", "from orbitmq.client.producer.producer import Producer"),
        ("orbitmq/spark/source.py", "from orbitmq.net.dialer import Dialer"),
        ("orbitmq/spark/source.py", "from orbitmq import net"),
        ("orbitmq/store/flush.py", "from orbitmq.wire.codes import RequestCode"),
        ("orbitmq/dashboard/app.py", "from orbitmq.broker.handlers import send"),
        ("orbitmq/client/producer.py", "from orbitmq.testing.clocks import VirtualClock"),
        ("orbitmq/errors.py", "from orbitmq.clock import Clock"),
        ("orbitmq/errors.py", "from orbitmq.message.model import SendReceipt"),
        ("orbitmq/errors.py", "if TYPE_CHECKING:\n    from orbitmq.clock import Clock"),
        ("orbitmq/utils/helpers.py", ""),
        ("orbitmq/helpers.py", ""),
    ],
)
def test_a_wrong_arrow_is_caught(path: str, text: str) -> None:
    assert len(list(arrows.faults(snippet(text, path)))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("orbitmq/message/ids.py", "from orbitmq.message.host import Host\nimport struct"),
        ("orbitmq/wire/frame.py", "from orbitmq.errors import OrbitError"),
        (
            "orbitmq/errors.py",
            "if TYPE_CHECKING:\n    from orbitmq.message.model import SendReceipt",
        ),
        ("orbitmq/wire/frame.py", "from orbitmq.message.model import Message"),
        ("orbitmq/wire/frame.py", "from orbitmq.wire import codes"),
        ("orbitmq/net/dialer.py", "from orbitmq.wire.frame import FrameReader"),
        ("orbitmq/spark/source.py", "from orbitmq.net import blocking"),
        ("orbitmq/spark/source.py", "from orbitmq.net.blocking import Socket"),
        ("orbitmq/broker/handlers/send.py", "from orbitmq.broker.tables.offsets import Offsets"),
        ("orbitmq/cli/main.py", "from orbitmq.broker.server import Broker"),
        ("orbitmq/testing/cluster.py", "from orbitmq import Message\nimport orbitmq.broker.server"),
        ("orbitmq/__init__.py", "from orbitmq.message.model import Message"),
        ("pyspark_rocketmq/__init__.py", "from orbitmq.spark.source import DefaultSource"),
    ],
)
def test_a_right_arrow_is_not(path: str, text: str) -> None:
    assert list(arrows.faults(snippet(text, path))) == []


# Floors.


@pytest.mark.parametrize("room", floors.FLOORS)
def test_the_floors_of_a_room_have_no_circle(room: str) -> None:
    graph = floors.FLOORS[room].floors
    assert set().union(*graph.values()) <= set(graph)
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize("room", floors.FLOORS)
def test_the_table_names_only_what_is_there(room: str) -> None:
    folder, names = ROOT / "src/orbitmq" / room, floors.FLOORS[room]
    assert all(
        (folder / f"{name.replace('.', '/')}.py").is_file() for name in names.ground | names.roof
    )
    assert all((folder / name.replace(".", "/")).is_dir() for name in names.floors)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("orbitmq/store/disk/disk.py", "from orbitmq.store.log.flush import Flush"),
        ("orbitmq/store/disk/disk.py", "from orbitmq.store import message_store"),
        ("orbitmq/store/layout.py", "from orbitmq.store.disk import disk"),
        ("orbitmq/store/reader/verify.py", "from orbitmq.store.recovery import start"),
        ("orbitmq/broker/sending/inbox.py", "from orbitmq.broker.pulling import filters"),
        ("orbitmq/broker/tables/topics.py", "from orbitmq.broker.handlers.client import send"),
        ("orbitmq/client/core/routes.py", "from orbitmq.client.producer.producer import Producer"),
        ("orbitmq/client/producer/sending/sender.py", "import orbitmq.client.producer.options"),
        ("orbitmq/store/loose.py", ""),
    ],
)
def test_an_import_from_a_floor_above_is_caught(path: str, text: str) -> None:
    assert len(list(floors.faults(snippet(text, path)))) == 1


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("orbitmq/store/log/flush.py", "from orbitmq.store.disk.disk import Disk"),
        ("orbitmq/store/log/flush.py", "from orbitmq.store.log import append"),
        ("orbitmq/store/log/flush.py", "from orbitmq.store.layout import path_join"),
        ("orbitmq/store/layout.py", "from orbitmq.store.settings import StoreSettings"),
        ("orbitmq/store/message_store.py", "from orbitmq.store.recovery import start"),
        ("orbitmq/client/producer/producer.py", "import orbitmq.client.producer.sending.sender"),
        ("orbitmq/net/dialer.py", "from orbitmq.net.transport import tcp"),
    ],
)
def test_an_import_from_a_floor_below_is_not(path: str, text: str) -> None:
    assert list(floors.faults(snippet(text, path))) == []


def test_a_crowded_folder_is_caught() -> None:
    modules = [Module(f"orbitmq/wire/m{number}.py", "") for number in range(17)]
    assert list(floors.crowds(modules[:16])) == []
    assert list(floors.crowds(modules)) == ["orbitmq/wire: 17 modules, 16 allowed; give it floors"]


# Seams.


@pytest.mark.parametrize(
    "text",
    [
        "import time",
        "import time as t",
        "from time import time",
        "from time import time as now",
        "from time import *",
        "import importlib\nimportlib.import_module('time')",
        "from importlib import import_module\nimport_module('time')",
        "__import__('time')",
        "import importlib\nimportlib.import_module(name)",
        "exec('import ' + 'time')",
        "eval('__import__')",
        "from datetime import datetime\ndatetime.now()",
        "import datetime as dt\ndt.datetime.now()",
        "from datetime import datetime as d\nnow = d.utcnow",
        "from datetime import date\ndate.today()",
        "import random",
        "import secrets",
        "from uuid import uuid4",
        "import threading",
        "from concurrent.futures import ThreadPoolExecutor",
        "import concurrent.futures",
        "import multiprocessing.pool",
        "import queue",
        "import socket",
        "import ssl",
        "import asyncio",
        "from asyncio import Queue",
        "import os",
        "open('x')",
        "import io\nio.open('x')",
        "import mmap",
        "def save(path):\n    path.write_bytes(b'')",
        "print('hello')",
        "import sys\nsys.stdout.write('hello')",
    ],
)
def test_a_reach_past_a_seam_is_caught(text: str) -> None:
    assert list(seams.faults(snippet(text))) != []


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos.fsync(3)",
        "from os import fsync",
        "from os import fsync as flush",
        "from os import *",
        "import os as system\nsystem.open('x', 0)",
        "import os\ngetattr(os, 'fdatasync')",
        "import os\nos.urandom(8)",
        "import os\nos.environ['HOME']",
        "from pathlib import Path",
        "import pathlib\npathlib.Path('x')",
        "import tempfile",
    ],
)
def test_os_itself_is_open_to_the_store_but_not_its_file_calls(text: str) -> None:
    assert list(seams.faults(snippet(text, "orbitmq/store/flush.py"))) != []
    assert list(seams.faults(snippet("import os\nos.getpid()", "orbitmq/store/flush.py"))) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("orbitmq/clock.py", "import time\nfrom datetime import datetime\ndatetime.now()"),
        ("orbitmq/randomness.py", "import random, secrets, uuid"),
        ("orbitmq/threads.py", "import threading\nfrom concurrent.futures import Future"),
        ("orbitmq/net/dialer.py", "import asyncio, socket, ssl"),
        ("orbitmq/wire/fields.py", "exec('def write(header): ...')"),
        ("orbitmq/store/disk/disk.py", "import os, mmap\nos.fsync(3)\nopen('x')"),
        ("orbitmq/settings.py", "import os\nopen('x')\nos.environ['HOME']"),
        ("orbitmq/testing/cluster.py", "import time, threading, socket\nopen('x')"),
        ("orbitmq/wire/frame.py", "from datetime import datetime, timedelta\ndatetime(2024, 1, 1)"),
        ("orbitmq/wire/frame.py", "def f(open):\n    return open('x')"),
        ("orbitmq/wire/frame.py", "def print(x): ...\nprint('x')"),
        ("orbitmq/wire/frame.py", "def f(time):\n    return time.time"),
    ],
)
def test_a_home_may_reach_for_its_own(path: str, text: str) -> None:
    assert list(seams.faults(snippet(text, path))) == []


@pytest.mark.parametrize("room", ["message", "wire", "store", "spark"])
def test_these_rooms_know_no_loop(room: str) -> None:
    fault = f"orbitmq/{room}/x.py:1: asyncio may not be touched here"
    assert fault in next(seams.faults(snippet("import asyncio", f"orbitmq/{room}/x.py")))


def test_the_demo_is_free_of_some_seams_only() -> None:
    assert list(seams.faults(snippet("print(open('x'))", "orbitmq/demo/run.py"))) == []
    assert list(seams.faults(snippet("import time", "orbitmq/demo/run.py"))) != []


# Sizes.


def lines(count: int) -> str:
    return "    x = 1\n" * count


def test_a_long_function_is_caught_and_one_at_the_limit_is_not() -> None:
    assert list(sizes.faults(snippet("def f():\n" + lines(69)), {})) == []
    assert list(sizes.faults(snippet("class A:\n  async def f():\n" + lines(70)), {})) == [
        "orbitmq/wire/frame.py::A.f: 71 lines of function, 70 allowed"
    ]


def test_parameters_count_without_self() -> None:
    eight, nine = "a, b, /, c, d=1, *e, f, g, **h", "a, b, c, d, e, f, g, *, h, i"
    assert list(sizes.faults(snippet(f"class A:\n  def f(self, {eight}): ..."), {})) == []
    assert list(sizes.faults(snippet(f"def f({nine}): ..."), {})) == [
        "orbitmq/wire/frame.py::f: 9 parameters, 8 allowed"
    ]


def test_a_long_file_is_caught_and_its_tables_and_texts_do_not_count() -> None:
    text = '"""One.\n' + "two\n" * 700 + '"""\n'
    table = text + "CODES = {\n" + "    1: 2,\n" * 700 + "}\n"
    enum = "class Code(IntEnum):\n" + "".join(f"    C{n} = {n}\n" for n in range(700))
    assert list(sizes.faults(snippet(table + enum + "f()\n" * 599), {})) == []
    assert list(sizes.faults(snippet(table + "f()\n" * 601), {})) == [
        "orbitmq/wire/frame.py: 601 lines of file, 600 allowed"
    ]


def test_an_exception_may_only_shrink() -> None:
    def faults(allowed: int) -> list[str]:
        exceptions = {("lines of function", "orbitmq/wire/frame.py::f"): allowed}
        return list(sizes.faults(snippet("def f():\n" + lines(79)), exceptions))

    place = "orbitmq/wire/frame.py::f: 80 lines of function"
    assert faults(80) == []
    assert faults(79) == [f"{place}, 79 allowed"]
    assert faults(81) == [f"{place}, and the exception says 81; write 80"]


def test_a_needless_exception_is_caught() -> None:
    exceptions = {("lines of function", "orbitmq/wire/frame.py::f"): 90}
    assert "take it out" in next(sizes.faults(snippet("def f(): ..."), exceptions))
    assert "take it out" in next(sizes.faults([], exceptions))


# Upkeep.


def test_a_module_without_a_test_file_is_caught(tmp_path: Path) -> None:
    module = snippet("def f(): ...")
    assert list(upkeep.untested(module, tmp_path, {})) == [
        "orbitmq/wire/frame.py: has no test file wire/test_frame.py"
    ]
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire/test_frame.py").touch()
    assert list(upkeep.untested(module, tmp_path, {})) == []
    assert "take its exception out" in next(
        upkeep.untested(module, tmp_path, {"wire/frame.py": "why"})
    )


def test_only_declarations_may_share_a_table_test(tmp_path: Path) -> None:
    (tmp_path / "wire").mkdir()
    (tmp_path / "wire/test_headers.py").touch()
    path = "orbitmq/wire/headers/send.py"
    assert list(upkeep.untested(snippet("class A:\n    x: int = 1", path), tmp_path, {})) == []
    method = snippet("class A:\n    def f(self): ...", path)
    assert list(upkeep.untested(method, tmp_path, {})) != []


def test_a_door_names_what_it_has_and_documents_it() -> None:
    def bare() -> None: ...

    door = ModuleType("door", "A door.")
    door.__dict__.update(__all__=["bare", "missing", "LIMIT"], bare=bare, LIMIT=7)
    assert list(upkeep.door_faults(door)) == [
        "door.bare: has no docstring",
        "door.missing: is in __all__ and can't be imported",
    ]
    assert list(upkeep.door_faults(ModuleType("silent"))) == ["silent: has no docstring"]
