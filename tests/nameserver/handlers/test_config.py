"""Operators put keys and settings."""

import logging
from pathlib import Path

import pytest

from orbitmq.nameserver.settings import NameserverSettings
from orbitmq.wire.bodies.cluster import KVTable
from orbitmq.wire.codes import RequestCode, ResponseCode
from orbitmq.wire.fields import NoFields
from orbitmq.wire.frame import Frame
from orbitmq.wire.headers.route import (
    DeleteKVConfig,
    GetKVConfig,
    GetKVConfigAnswer,
    GetKVListByNamespace,
    PutKVConfig,
)
from orbitmq.wire.json.properties_text import properties_from_text
from tests.nameserver.parties import Party, with_nameserver

PUT = PutKVConfig(namespace="n", key="k", value="v")
GET = GetKVConfig(namespace="n", key="k")
LIST = GetKVListByNamespace(namespace="n")


async def update(party: Party, text: bytes) -> Frame:
    return await party.ask(NoFields(), text, code=RequestCode.UPDATE_NAMESRV_CONFIG)


def test_keys_come_and_go() -> None:
    async def scenario(party: Party) -> None:
        for header, remark in (
            (GET, "No config item, Namespace: n Key: k"),
            (LIST, "No config item, Namespace: n"),
        ):
            absent = await party.ask(header)
            assert (absent.code, absent.remark) == (ResponseCode.QUERY_NOT_FOUND, remark)
        assert (await party.ask(PUT)).code == ResponseCode.SUCCESS
        assert (await party.ask(GET)).read(GetKVConfigAnswer).value == "v"
        assert KVTable.from_json((await party.ask(LIST)).body).table == {"k": "v"}
        deleted = await party.ask(DeleteKVConfig(namespace="n", key="k"))
        assert deleted.code == ResponseCode.SUCCESS
        assert (await party.ask(GET)).code == ResponseCode.QUERY_NOT_FOUND
        assert KVTable.from_json((await party.ask(LIST)).body).table == {}

    with_nameserver(scenario)


def test_keys_outlive_the_nameserver(tmp_path: Path) -> None:
    settings = NameserverSettings(kv_config_path=str(tmp_path / "kvConfig.json"))

    async def put(party: Party) -> None:
        assert (await party.ask(PUT)).code == ResponseCode.SUCCESS

    async def get(party: Party) -> str | None:
        return (await party.ask(GET)).read(GetKVConfigAnswer).value

    with_nameserver(put, settings)
    assert with_nameserver(get, settings) == "v"


def test_a_key_that_could_not_be_saved_is_an_error(tmp_path: Path) -> None:
    settings = NameserverSettings(kv_config_path=str(tmp_path / "place/kvConfig.json"))

    async def scenario(party: Party) -> Frame:
        (tmp_path / "place").write_text("a file stands where the directory should")
        return await party.ask(PUT)

    answer = with_nameserver(scenario, settings)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "can't write" in (answer.remark or "")


def test_settings_are_returned_under_java_names() -> None:
    async def scenario(party: Party) -> None:
        answer = await party.ask(NoFields(), code=RequestCode.GET_NAMESRV_CONFIG)
        told = properties_from_text(answer.body)
        assert told == party.nameserver.settings.texts()
        assert told["orderMessageEnable"] == "false"

    with_nameserver(scenario)


def test_a_setting_is_in_force_at_once() -> None:
    async def scenario(party: Party) -> None:
        answer = await update(party, b"enableAllTopicList=false\n")
        assert answer.code == ResponseCode.SUCCESS
        refused = await party.ask(NoFields(), code=RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        assert refused.code == ResponseCode.SYSTEM_ERROR

    with_nameserver(scenario)


def test_the_log_level_is_that_of_the_process() -> None:
    logger = logging.getLogger("orbitmq")
    before = logger.level

    async def scenario(party: Party) -> None:
        assert (await update(party, b"logLevel=ERROR")).code == ResponseCode.SUCCESS
        assert logger.level == logging.ERROR
        assert (await update(party, b"logLevel=loud")).code == ResponseCode.INVALID_PARAMETER

    try:
        with_nameserver(scenario)
    finally:
        logger.setLevel(before)


def test_a_key_that_is_harmless_here_is_accepted() -> None:
    async def scenario(party: Party) -> None:
        answer = await update(party, b"defaultThreadPoolNums=32\nenableTopicList=false\n")
        assert answer.code == ResponseCode.SUCCESS
        assert not party.nameserver.settings.now.enable_topic_list

    with_nameserver(scenario)


JAVA_S_WORDS = {
    ResponseCode.NO_PERMISSION: "Can not update config in black list.",
    ResponseCode.SYSTEM_ERROR: "string2Properties error",
}
"""A value that can't be is our own to refuse; Java logs it and answers with a success."""


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (b"kvConfigPath=/x", ResponseCode.NO_PERMISSION, "kvConfigPath"),
        (b"enableTopicList=false\nlistenPort=1", ResponseCode.NO_PERMISSION, "listenPort"),
        (b"configStorePath=/x", ResponseCode.NO_PERMISSION, "configStorePath"),
        (
            b"enableControllerInNamesrv=true",
            ResponseCode.NO_PERMISSION,
            "brokers elect their master in etcd",
        ),
        (b"enableTopicList=maybe", ResponseCode.INVALID_PARAMETER, "properties:1: enableTopicList"),
        (b"scanNotActiveBrokerInterval=0", ResponseCode.INVALID_PARAMETER, "must be from 1"),
        (b"a=\\u12", ResponseCode.SYSTEM_ERROR, "four hexadecimal digits"),
        (b"\xff", ResponseCode.SYSTEM_ERROR, "not UTF-8"),
    ],
)
def test_what_may_not_be_set_is_refused_and_nothing_is(
    text: bytes, code: ResponseCode, words: str
) -> None:
    async def scenario(party: Party) -> None:
        before = party.nameserver.settings.now
        answer = await update(party, text)
        assert answer.code == code
        assert words in (answer.remark or "")
        assert (answer.remark or "").startswith(JAVA_S_WORDS.get(code, ""))
        assert party.nameserver.settings.now == before

    with_nameserver(scenario)
