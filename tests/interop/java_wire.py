"""Operations on frames, headers and bodies, by RocketMQ's own classes; the Java host imports this.

Typed headers are filled and read by reflection, field by field, so that no header is known here.
"""

from collections.abc import Callable

import jpype

from tests.interop.java_types import (
    ByteArray,
    Java,
    String,
    bytes_or_none,
    from_map,
    has_class,
    java_class,
    text_or_none,
    to_map,
)
from tests.interop.operations import Command, JsonBody, Signing, TypedFields

LENGTH_BYTES = 4
"""The length of a frame, which Java's decoder takes off before the command is read."""

AclClientRPCHook = java_class("AclClientRPCHook")
LanguageCode = java_class("LanguageCode")
MQVersion = java_class("MQVersion")
Modifier = jpype.JClass("java.lang.reflect.Modifier")
RegisterBrokerBody = java_class("RegisterBrokerBody")
RemotingCommand = java_class("RemotingCommand")
RemotingSerializable = java_class("RemotingSerializable")
SerializeType = java_class("SerializeType")
SessionCredentials = java_class("SessionCredentials")
Unpooled = jpype.JClass("io.netty.buffer.Unpooled")

# How a text becomes the value of a header field, by the simple name of the field's type.
PARSERS: dict[str, Callable[[str], Java]] = {"String": String}
for boxed, bare in ("Integer", "int"), ("Long", "long"), ("Boolean", "boolean"):
    PARSERS[boxed] = PARSERS[bare] = jpype.JClass(f"java.lang.{boxed}").valueOf
if has_class("BoundaryType"):
    PARSERS["BoundaryType"] = java_class("BoundaryType").valueOf


def constants(name: str) -> dict[str, int]:
    """Return the public whole numbers that a class declares or inherits."""
    fields = java_class(name).class_.getFields()
    numbers = (field for field in fields if str(field.getType().getName()) == "int")
    return {str(field.getName()): int(field.getInt(None)) for field in numbers}


def encode_command(command: Command) -> bytes:
    """Encode a whole frame as the Netty encoder does, typed fields by the class named."""
    made = to_command(command)
    out = Unpooled.buffer()
    made.fastEncodeHeader(out)
    if command.body is not None:
        out.writeBytes(ByteArray(command.body))
    written = ByteArray(int(out.readableBytes()))
    out.readBytes(written)
    return bytes(written)


def to_command(command: Command) -> Java:
    """Make a RemotingCommand; a header class, if named, takes the fields it declares."""
    fields = dict(command.fields or {})
    header = None
    if command.header is not None:
        header = java_class(command.header)()
        names = fields_of(header)
        fill(header, {name: fields.pop(name) for name in list(fields) if name in names})
    made = RemotingCommand.createRequestCommand(command.code, header)
    made.setLanguage(LanguageCode.valueOf(command.language))
    made.setVersion(command.version)
    made.setOpaque(command.opaque)
    made.setFlag(command.flag)
    made.setRemark(command.remark)
    made.setSerializeTypeCurrentRPC(
        SerializeType.ROCKETMQ if command.binary else SerializeType.JSON
    )
    if fields or (command.fields is not None and header is None):
        made.setExtFields(to_map(fields))
    if command.body is not None:
        made.setBody(ByteArray(command.body))
    return made


def decode_command(frame: bytes) -> Command:
    """Decode a whole frame."""
    return from_command(RemotingCommand.decode(ByteArray(frame[LENGTH_BYTES:])))


def from_command(read: Java) -> Command:
    """Return what a RemotingCommand says."""
    fields = read.getExtFields()
    return Command(
        code=int(read.getCode()),
        opaque=int(read.getOpaque()),
        language=text_or_none(read.getLanguage()),
        version=int(read.getVersion()),
        flag=int(read.getFlag()),
        remark=text_or_none(read.getRemark()),
        fields=None if fields is None else from_fields(fields),
        body=bytes_or_none(read.getBody()),
        binary=bool(read.getSerializeTypeCurrentRPC() == SerializeType.ROCKETMQ),
    )


def from_fields(fields: Java) -> dict[str, str | None]:
    """Return extension fields, in which a value may be null."""
    return {str(one.getKey()): text_or_none(one.getValue()) for one in fields.entrySet()}


def write_header(typed: TypedFields) -> dict[str, str]:
    """Return the extension fields that a typed header travels as."""
    header = java_class(typed.header)()
    fill(header, typed.fields)
    command = RemotingCommand.createRequestCommand(0, header)
    command.makeCustomHeaderToNet()
    return from_map(command.getExtFields())


def read_header(typed: TypedFields) -> dict[str, str | None]:
    """Return all fields of the typed header that extension fields are read into."""
    command = RemotingCommand.createRequestCommand(0, None)
    command.setExtFields(to_map(typed.fields))
    header = command.decodeCommandCustomHeader(java_class(typed.header).class_)
    return {
        name: None if value is None else str(value.toString())
        for name, field in fields_of(header).items()
        for value in [field.get(header)]
    }


def describe_header(name: str) -> dict[str, str]:
    """Return the names of a header's fields and the simple names of their types."""
    fields = fields_of(java_class(name)())
    return {name: str(field.getType().getSimpleName()) for name, field in fields.items()}


def fill(header: Java, texts: dict[str, str | None]) -> None:
    """Set fields of a header from texts; LookupError if it has no such field."""
    fields = fields_of(header)
    for name, text in texts.items():
        if text is not None:
            field = fields[name]
            field.set(header, PARSERS[str(field.getType().getSimpleName())](text))


def fields_of(header: Java) -> dict[str, Java]:
    """Return the fields of a header's class and its parents, opened for reading and writing."""
    found: dict[str, Java] = {}
    kind = header.getClass()
    while kind is not None and str(kind.getName()) != "java.lang.Object":
        for field in kind.getDeclaredFields():
            if not Modifier.isStatic(field.getModifiers()):
                field.setAccessible(True)
                found.setdefault(str(field.getName()), field)
        kind = kind.getSuperclass()
    return found


def sign(signing: Signing) -> dict[str, str]:
    """Return the extension fields after the client's hook has signed a request."""
    credentials = SessionCredentials(signing.access_key, signing.secret_key)
    if signing.security_token is not None:
        credentials.setSecurityToken(signing.security_token)
    command = to_command(signing.command)
    AclClientRPCHook(credentials).doBeforeRequest("127.0.0.1:10911", command)
    return from_map(command.getExtFields())


def rewrite_body(given: JsonBody) -> bytes:
    """Read JSON into a body class, and write it again."""
    read = RemotingSerializable.decode(ByteArray(given.text), java_class(given.body).class_)
    return str(RemotingSerializable.toJson(read, False)).encode()


def compress_registration(text: bytes) -> bytes:
    """Read the JSON of a broker's registration, and write it in the compressed form."""
    return bytes(
        RemotingSerializable.decode(ByteArray(text), RegisterBrokerBody.class_).encode(True)
    )


def open_registration(compressed: bytes) -> bytes:
    """Read the compressed form of a broker's registration, and write it as JSON."""
    version = MQVersion.value2Version(MQVersion.CURRENT_VERSION)
    read = RegisterBrokerBody.decode(ByteArray(compressed), True, version)
    return str(RemotingSerializable.toJson(read, False)).encode()
