"""Java's remoting client over TLS, on a broker of ours that Java's own keys configure."""

from pathlib import Path

import pytest

from orbitmq.wire.codes import RequestCode, ResponseCode
from tests.interop.java import Java, JavaHostFailed
from tests.interop.operations import CLOSE_CLIENT, INVOKE, OPEN_CLIENT, Call, ClientOptions, Command
from tests.interop.our_servers import a_broker
from tests.net.conftest import Certificates


def config_code(java: Java, address: str, *, tls: bool) -> int:
    """Return the code of the answer to GET_BROKER_CONFIG."""
    (client,) = java.ask(OPEN_CLIENT, [ClientOptions(tls)])
    command = Command(code=int(RequestCode.GET_BROKER_CONFIG), opaque=1)
    call = Call(client=client, address=address, commands=[command], timeout_ms=10_000)
    try:
        ((answer,),) = java.ask(INVOKE, [call])
    finally:
        java.ask(CLOSE_CLIENT, [client])
    return answer.code


def test_a_broker_that_enforces_tls_serves_java_over_tls_only(
    java_540: Java, certificates: Certificates, tmp_path: Path
) -> None:
    file = tmp_path / "tls.properties"
    file.write_text(f"tls.test.mode.enable=false\ntls.server.certPath={certificates.server}\n")
    keys = {"tls.server.mode": "enforcing", "tls.config.file": str(file)}
    with a_broker(tmp_path / "store", nameservers="", **keys) as broker:
        address = str(broker.address)
        assert config_code(java_540, address, tls=True) == ResponseCode.SUCCESS
        with pytest.raises(JavaHostFailed):
            config_code(java_540, address, tls=False)
