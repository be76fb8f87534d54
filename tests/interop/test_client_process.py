"""Driving a client in another language: what it says is read, and what goes wrong is told."""

import sys
from pathlib import Path

import pytest

from tests.interop import client_process
from tests.interop.client_packages import OtherClient
from tests.interop.client_process import ClientFailed, Delivery, Order, Receiver, Sender

ANSWERS_EACH = """
import json, sys
for line in sys.stdin:
    order = json.loads(line)
    answer = {"status": "SEND_OK", "unique_id": "unique", "offset_id": order["body"]}
    print(json.dumps(answer | {"broker": "broker-a", "queue_id": 1, "queue_offset": 7}), flush=True)
"""


class Script(OtherClient):
    """A client in Python, to go wrong as it is written to."""

    language = "python"
    package = "script"
    installed_by = ()
    run_by = ()
    version = "1"
    sources = ()
    command: tuple[str, ...] = ()

    def __init__(self, directory: Path, text: str) -> None:
        file = directory / "client.py"
        file.write_text(text)
        self.command = (sys.executable, str(file))

    def _install(self) -> str | None:
        raise AssertionError("it is never installed")


def test_each_order_has_its_receipt(tmp_path: Path) -> None:
    orders = [Order("t", "paid", ("k",), body) for body in (b"one", b"two")]
    with Sender(Script(tmp_path, ANSWERS_EACH), "nameserver") as sender:
        receipts = sender.send(orders)
    assert [receipt.offset_id for receipt in receipts] == ["b25l", "dHdv"]  # base64 of the bodies


def test_a_client_gets_its_arguments_and_tells_deliveries(tmp_path: Path) -> None:
    text = """
import json, sys
told = {"topic": sys.argv[3], "tags": sys.argv[5], "keys": "", "body": "b25l", "unique_id": ""}
told |= {"offset_id": "", "queue_id": 0, "queue_offset": 0, "reconsume_times": 0}
print(json.dumps(told), flush=True)
sys.stdin.read()
"""
    with Receiver(Script(tmp_path, text), "nameserver", "orders", "g", "paid") as receiver:
        (delivery,) = receiver.receive(1)
    assert delivery == Delivery("orders", "paid", "", b"one", "", "", 0, 0, 0)


def test_one_that_gives_up_leaves_its_last_words(tmp_path: Path) -> None:
    script = Script(tmp_path, "exit('no route')")
    with pytest.raises(ClientFailed, match="says no more, status 1\nno route"):
        with Receiver(script, "nameserver", "orders", "g") as receiver:
            receiver.receive(1)


def test_one_that_says_too_much_fails(tmp_path: Path) -> None:
    script = Script(tmp_path, "import sys; sys.stdin.read(); print('one more')")
    with pytest.raises(ClientFailed, match="said more than was asked for: b'one more"):
        with Receiver(script, "nameserver", "orders", "g"):
            pass


def test_one_that_ends_badly_fails(tmp_path: Path) -> None:
    script = Script(tmp_path, "import sys; sys.stdin.read(); exit('not unregistered')")
    with pytest.raises(ClientFailed, match="did not end well, status 1\nnot unregistered"):
        with Receiver(script, "nameserver", "orders", "g"):
            pass


def test_one_that_hangs_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_process, "LIFE_SECONDS", 0.2)
    script = Script(tmp_path, "import sys; sys.stdin.read()")
    with pytest.raises(ClientFailed, match="says no more, status -9"):
        with Receiver(script, "nameserver", "orders", "g") as receiver:
            receiver.receive(1)
