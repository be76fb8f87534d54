"""The forms of a route, by the version of the client."""

import json
from pathlib import Path

from orbitmq.wire.bodies.route import BrokerData, TopicRouteData

GOLDEN = Path(__file__).parents[2] / "golden"


def probed(name: str) -> str:
    probes = json.loads((GOLDEN / "probes.json").read_text())["probes"]
    (text,) = (probe["response_body_text"] for probe in probes if probe["name"] == name)
    return str(text)


def test_an_old_client_gets_bare_numbers_as_keys() -> None:
    text = probed("route, request version 0 (non-standard JSON)")
    assert TopicRouteData.from_json(text.encode()).to_json(java_keys=True).decode() == text


def test_a_new_client_gets_the_standard_form() -> None:
    for name in ("route, request version 493", "route, request version 0, acceptStandardJsonOnly"):
        text = probed(name)
        read = TopicRouteData.from_json_strict(text.encode())
        assert read.to_standard_json().decode() == text


def test_the_standard_form_is_sorted_ascii_without_nulls() -> None:
    broker = BrokerData(broker_addrs={2: "c", 0: "a"}, broker_name="b", cluster="上海🚀")
    route = TopicRouteData(broker_datas=(broker,), filter_server_table={"z": ("1",), "y": ()})
    assert route.to_standard_json() == (
        b'{"brokerDatas":[{"brokerAddrs":{"0":"a","2":"c"},"brokerName":"b",'
        b'"cluster":"\\u4e0a\\u6d77\\ud83d\\ude80","enableActingMaster":false}],'
        b'"filterServerTable":{"y":[],"z":["1"]},"queueDatas":[]}'
    )
    assert TopicRouteData.from_json(route.to_standard_json()) == route
