from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.errors import InvalidInput
from orbitmq.wire.auth import Credentials, sign, signature, signed_bytes, verify
from tests.golden_files import golden

SIGNED: list[dict[str, Any]] = golden("acl")["cases"]
RAW: list[dict[str, str]] = golden("acl")["raw_signatures"]
PROBES: list[dict[str, Any]] = golden("acl2_probes")["cases"]

texts = st.text(st.characters(codec=None))
fields_of_a_request = st.dictionaries(texts, texts, max_size=6)


def body_of(case: Mapping[str, Any]) -> bytes | None:
    return None if case["body_hex"] is None else bytes.fromhex(case["body_hex"])


@pytest.mark.parametrize("case", SIGNED, ids=lambda case: case["name"])
def test_a_request_is_signed_as_java_signs_it(case: dict[str, Any]) -> None:
    credentials = Credentials(case["access_key"], case["secret_key"], case["security_token"])
    unsigned = {
        name: value
        for name, value in case["sorted_fields_signed"].items()
        if name not in ("AccessKey", "SecurityToken")
    }
    added = sign(unsigned, body_of(case), credentials)
    assert added["Signature"] == case["signature"]
    assert {**unsigned, **added} == {
        **case["sorted_fields_signed"],
        "Signature": case["signature"],
    }


@pytest.mark.parametrize("case", SIGNED, ids=lambda case: case["name"])
def test_the_signed_bytes_are_javas(case: dict[str, Any]) -> None:
    assert (
        signed_bytes(case["sorted_fields_signed"], body_of(case)).hex() == case["signed_bytes_hex"]
    )


@pytest.mark.parametrize("case", RAW, ids=lambda case: case["data"] or "nothing")
def test_a_raw_signature_is_javas(case: dict[str, str]) -> None:
    assert signature({}, case["data"].encode(), case["key"]) == case["hmac_sha1_base64"]


@pytest.mark.parametrize(
    "case", [case for case in PROBES if case["access_key"]], ids=lambda case: case["name"]
)
def test_a_signature_is_accepted_where_a_java_broker_accepts_it(case: dict[str, Any]) -> None:
    # The broker was started with the first user; one of the probes creates the second.
    secrets = {"rmq": "12345678", "u1": "pw"}
    fields = case["ext_fields_before_signing"] or {}
    credentials = Credentials(case["access_key"], case["secret_key"])
    sent, _, signed_over = (case["body_text"] or "").partition(" (signed over ")
    added = sign(fields, (signed_over.rstrip(")") or sent).encode(), credentials)
    secret = secrets.get(case["access_key"])
    accepted = secret is not None and verify(fields | added, sent.encode(), secret)
    refusals = ("check signature failed.", "User:nobody is not found.")
    assert accepted == (case["response_remark"] not in refusals)


def test_names_are_ordered_by_utf16_unit() -> None:
    # U+1F600 begins with the unit D83D and so comes before U+FF5E, though its number is higher.
    assert signed_bytes({"\uff5e": "2", "\U0001f600": "1", "b": "0", "B": "-"}, None) == b"-012"


def test_a_field_without_a_value_counts_as_null() -> None:
    assert signed_bytes({"a": None, "b": ""}, None) == b"null"


def test_half_a_surrogate_pair_is_a_question_mark_and_two_halves_are_whole() -> None:
    assert signed_bytes({"a": "x\ud83d"}, None) == b"x?"
    assert signed_bytes({"a": "\ud83d", "b": "\ude00"}, None) == "\U0001f600".encode()


@given(fields_of_a_request, st.none() | st.binary(), texts.filter(bool))
def test_what_was_signed_verifies(
    fields: dict[str, str], body: bytes | None, secret_key: str
) -> None:
    signed = fields | sign(fields, body, Credentials("alice", secret_key, "token"))
    assert verify(signed, body, secret_key)
    assert verify(signed, memoryview(body or b""), secret_key)


@given(fields_of_a_request, st.binary(min_size=1), st.data())
def test_a_changed_byte_of_the_body_does_not(
    fields: dict[str, str], body: bytes, data: st.DataObject
) -> None:
    signed = fields | sign(fields, body, Credentials("alice", "secret"))
    changed = bytearray(body)
    changed[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(1, 255))
    assert not verify(signed, changed, "secret")


@given(st.none() | texts)
def test_any_text_may_stand_as_a_signature(text: str | None) -> None:
    assert not verify({"AccessKey": "alice", "Signature": text}, b"body", "secret")


def test_no_signature_does_not_verify() -> None:
    assert not verify({"AccessKey": "alice"}, None, "secret")


@pytest.mark.parametrize("name", ["access_key", "secret_key", "security_token"])
def test_an_empty_text_is_refused_by_name(name: str) -> None:
    given = {"access_key": "alice", "secret_key": "secret", "security_token": "token"} | {name: ""}
    with pytest.raises(InvalidInput, match=name) as caught:
        Credentials(**given)
    assert caught.value.field == name


def test_a_secret_does_not_show() -> None:
    shown = repr(Credentials("alice", "secret", "token"))
    assert "alice" in shown
    assert "secret" not in shown.replace("secret_key", "")
    assert "token" not in shown
