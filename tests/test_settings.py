"""Settings as they load: the property syntax, types, and errors that name file, line and key."""

import enum
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import DiskFailed, InvalidInput, InvalidSetting
from orbitmq.settings import (
    Property,
    about_unknown,
    build,
    content,
    from_arguments,
    parse,
    read,
    save,
    texts_of,
    to_line,
    unknown,
    with_changes,
)


class Role(enum.Enum):
    MASTER = "ASYNC_MASTER"
    SLAVE = "SLAVE"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    name: str = "broker-a"
    port: Annotated[int, msgspec.Meta(ge=0, le=65_535)] = 10_911
    size: int = 1024
    ratio: float = 0.75
    auto_create: bool = True
    role: Role = Role.MASTER
    zone: str | None = None
    least: int = 1

    def __post_init__(self) -> None:
        if self.least > self.size:
            raise InvalidInput(f"least is {self.least}, over size {self.size}", field="least")


NAMES = {
    "brokerName": "name",
    "listenPort": "port",
    "segmentSize": "size",
    "usedRatio": "ratio",
    "autoCreate": "auto_create",
    "brokerRole": "role",
    "zoneName": "zone",
    "leastSize": "least",
}


def from_text(text: str, base: Sample | None = None) -> Sample:
    return build(Sample, parse(text, "broker.conf"), NAMES, base=base)


# The text of a file.


def test_each_property_knows_its_line() -> None:
    text = "# a comment\n\nfirst=1\n  second : 2\nthird=a,\\\n  b\n! a comment\nfourth"
    assert parse(text, "broker.conf") == [
        Property("first", "1", "broker.conf", 3),
        Property("second", "2", "broker.conf", 4),
        Property("third", "a,b", "broker.conf", 5),
        Property("fourth", "", "broker.conf", 8),
    ]


def test_line_ends_of_all_systems_count_alike() -> None:
    assert [one.line for one in parse("a=1\r\nb=2\rc=3\nd=4", "f")] == [1, 2, 3, 4]


@pytest.mark.parametrize("value", [r"\u12", r"\ud83d!"])
def test_a_broken_escape_names_its_line(value: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^broker.conf:2: \\u") as raised:
        parse(f"a=1\nb={value}", "broker.conf")
    assert (raised.value.file, raised.value.line) == ("broker.conf", 2)


@given(st.lists(st.tuples(st.text("ab ", min_size=1), st.text("=:# \t\\ab"))))
def test_properties_come_in_the_order_of_their_lines(pairs: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{key}={value}" for key, value in pairs)
    lines = [one.line for one in parse(text, "f")]
    assert lines == sorted(set(lines))
    assert all(1 <= line <= len(pairs) for line in lines)


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_text("brokerName=上\n")
    assert read(str(path)) == [Property("brokerName", "上", str(path), 1)]


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="gone.conf can't be read: No such file"):
        read(str(tmp_path / "gone.conf"))


def test_a_file_that_a_setting_names_is_read_or_both_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_bytes(b"\xff")
    assert content(str(tmp_path / "ca.pem"), "caFile") == b"\xff"
    with pytest.raises(InvalidInput, match=r"caFile: .*gone\.pem can't be read: No such file"):
        content(str(tmp_path / "gone.pem"), "caFile")


def test_a_file_that_is_not_utf_8_is_refused_with_the_line(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(b"a=1\nb=\xff\n")
    with pytest.raises(InvalidSetting, match=r"broker\.conf:2: byte 6 .* not UTF-8"):
        read(str(path))


def test_a_file_that_is_far_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "broker.conf"
    path.write_bytes(bytes(1024 * 1024 + 1))
    with pytest.raises(InvalidSetting, match="is not a file of settings"):
        read(str(path))


# Arguments.


def test_an_argument_is_split_at_its_first_equals_sign() -> None:
    assert from_arguments(["zoneName=a=b\\n"]) == [Property("zoneName", "a=b\\n", "--set")]


@pytest.mark.parametrize("argument", ["listenPort", "=1", " =1", "x" * 500])
def test_an_argument_that_is_no_pair_says_how_to_write_it(argument: str) -> None:
    with pytest.raises(InvalidSetting, match="write it as key=value") as raised:
        from_arguments([argument])
    assert len(str(raised.value)) < 150


# Values.


def test_values_get_the_types_of_their_fields() -> None:
    text = (
        "brokerName=broker-b\nlistenPort=0\nsegmentSize=-7\nusedRatio=0.5\nautoCreate=FALSE\n"
        "brokerRole=SLAVE\nzoneName=z1\nleastSize=-8"
    )
    assert from_text(text) == Sample(
        name="broker-b",
        port=0,
        size=-7,
        ratio=0.5,
        auto_create=False,
        role=Role.SLAVE,
        zone="z1",
        least=-8,
    )


def test_the_last_word_holds_and_blanks_around_a_value_do_not_count() -> None:
    assert from_text("listenPort=1\nlistenPort = 2 \t").port == 2


def test_what_is_not_said_is_as_in_the_base() -> None:
    base = Sample(port=1, role=Role.SLAVE)
    assert from_text("listenPort=2", base) == Sample(port=2, role=Role.SLAVE)


@pytest.mark.parametrize("text", ["ASYNC_MASTER", "MASTER"])
def test_a_choice_is_said_by_its_value_or_its_name(text: str) -> None:
    assert from_text(f"brokerRole={text}", Sample(role=Role.SLAVE)).role is Role.MASTER


def test_nothing_said_of_an_optional_text_is_none() -> None:
    assert from_text("zoneName=", Sample(zone="z1")).zone is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("listenPort=ten", "listenPort: 'ten' is not a whole number from 0 to 65535"),
        ("listenPort=65536", "listenPort: '65536' is not a whole number from 0 to 65535"),
        ("listenPort=1e3", "listenPort: '1e3' is not a whole number"),
        ("listenPort=", "listenPort: '' is not a whole number"),
        ("segmentSize=1024*1024", "segmentSize: '1024*1024' is not a whole number"),
        ("segmentSize=1_000", "segmentSize: '1_000' is not a whole number"),
        ("usedRatio=much", "usedRatio: 'much' is not a number"),
        ("autoCreate=yes", "autoCreate: 'yes' is not true or false"),
        ("autoCreate=1", "autoCreate: '1' is not true or false"),
        ("brokerRole=KING", "brokerRole: 'KING' is not one of ASYNC_MASTER, SLAVE"),
        ("leastSize=2000", "leastSize: least is 2000, over size 1024"),
    ],
)
def test_a_bad_value_is_an_error_with_file_line_and_key(line: str, words: str) -> None:
    with pytest.raises(InvalidSetting) as raised:
        from_text(f"# first\n{line}")
    assert str(raised.value).startswith(f"broker.conf:2: {words}")
    assert (raised.value.line, raised.value.field) == (2, line.partition("=")[0])


def test_a_default_that_contradicts_a_given_value_is_an_error_with_the_file() -> None:
    with pytest.raises(InvalidSetting, match="^broker.conf: least is 1, over size 0$"):
        from_text("segmentSize=0")


def test_a_long_value_is_not_repeated() -> None:
    with pytest.raises(InvalidSetting) as raised:
        from_text(f"listenPort={'9' * 10_000}")
    assert len(str(raised.value)) < 200


def test_settings_are_returned_as_they_would_be_read() -> None:
    settings = Sample(name="b", ratio=0.5, auto_create=False, role=Role.SLAVE)
    texts = texts_of(settings, {**NAMES, "alias": "port"})
    assert texts == {
        "brokerName": "b",
        "listenPort": "10911",
        "segmentSize": "1024",
        "usedRatio": "0.5",
        "autoCreate": "false",
        "brokerRole": "SLAVE",
        "leastSize": "1",
    }
    assert build(Sample, [Property(*one, "f") for one in texts.items()], NAMES) == settings


# What nobody reads.


def test_unknown_names_are_returned() -> None:
    properties = parse("listenPort=1\nlistenport=2\nrocketmqHome=x", "broker.conf")
    assert [one.name for one in unknown(properties, NAMES, ["rocketmqHome"])] == ["listenport"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("listenport", "did you mean listenPort?"),
        ("brokerNmae", "did you mean brokerName?"),
        ("entirelyElse", "has no effect"),
    ],
)
def test_the_warning_names_the_nearest_that_is_known(name: str, hint: str) -> None:
    words = about_unknown(Property(name, "1", "broker.conf", 7), NAMES)
    assert words.startswith(f"broker.conf:7: {name} is not known here")
    assert words.endswith(hint)


# Writing back


@given(st.text(), st.text())
def test_a_line_is_read_as_it_was_meant(name: str, value: str) -> None:
    try:
        f"{name}{value}".encode()
    except UnicodeEncodeError:
        return  # half of a pair is no text
    (found,) = parse(to_line(name or "a", value), "file")
    assert (found.name, found.value) == (name or "a", value)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "port=1\n"),
        ("# port=2", "# port=2\nport=1\n"),
        ("port : 2\r\n! last\r\n", "port=1\n! last\r\n"),
        ("a=1\nport=2\\\n  3\nb=4\n", "a=1\nport=1\nb=4\n"),
        ("port=2\nport=3\n", "port=1\nport=1\n"),
        ("port=2\\", "port=1\n"),
        ("a=1\\", "a=1\\\n\n\nport=1\n"),
        ("a=1\\\r", "a=1\\\r\n\nport=1\n"),
    ],
)
def test_only_the_lines_of_changed_keys_change(before: str, after: str) -> None:
    assert with_changes(before, {"port": "1"}) == after


def test_brokers_with_one_file_save_one_after_the_other(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    file.write_text("# ours\n")
    with ThreadPoolExecutor(8) as workers:
        list(workers.map(lambda number: save(str(file), {f"key{number}": "1"}), range(40)))
    assert {one.name for one in read(str(file))} == {f"key{number}" for number in range(40)}


def test_a_saved_file_keeps_its_mode_its_link_and_the_version_before(tmp_path: Path) -> None:
    file, link = tmp_path / "real.conf", tmp_path / "broker.conf"
    file.write_text("# ours\nport=2\n")
    file.chmod(0o640)
    link.symlink_to(file)
    save(str(link), {"port": "1"})
    assert link.is_symlink()
    assert file.read_text() == "# ours\nport=1\n"
    assert (tmp_path / "real.conf.bak").read_text() == "# ours\nport=2\n"
    assert file.stat().st_mode & 0o777 == 0o640
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "broker.conf", "real.conf", "real.conf.bak",
    ]  # fmt: skip


def test_a_pipe_is_not_replaced_by_a_file(tmp_path: Path) -> None:
    pipe = tmp_path / "broker.conf"
    os.mkfifo(pipe)
    with pytest.raises(InvalidSetting, match="no regular file"):
        save(str(pipe), {"queues": "8"})
    assert pipe.is_fifo()


def test_a_file_that_can_not_be_saved_is_an_error_and_stays(tmp_path: Path) -> None:
    with pytest.raises(DiskFailed, match=r"gone\.conf can't be changed: No such file"):
        save(str(tmp_path / "gone.conf"), {"port": "1"})
    (tmp_path / "good.conf").write_text("port=2")
    bad = tmp_path / "bad.conf"
    bad.write_bytes(b"name=\xff")
    with pytest.raises(InvalidSetting, match="not UTF-8"):
        save(str(bad), {"port": "1"})
    assert bad.read_bytes() == b"name=\xff"
    with pytest.raises(InvalidSetting, match="more than 1048576 bytes"):
        save(str(bad.with_name("good.conf")), {"port": "1" * 2**20})
    assert bad.with_name("good.conf").read_bytes() == b"port=2"
