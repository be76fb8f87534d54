"""Operations on names, carried out by RocketMQ's own classes; the Java host imports this."""

from tests.interop.java_types import java_class
from tests.interop.operations import Namespaced, Subscription

FilterAPI = java_class("FilterAPI")
NamespaceUtil = java_class("NamespaceUtil")
Validators = java_class("Validators")


def check_topic(name: str) -> None:
    """Refuse a name that a producer may not send to."""
    Validators.checkTopic(name)


def check_group(name: str) -> None:
    """Refuse a name that no group may have."""
    Validators.checkGroup(name)


def wrap_namespace(one: Namespaced) -> str:
    """Put a topic or group into a namespace."""
    return str(NamespaceUtil.wrapNamespace(one.namespace, one.name))


def strip_namespace(one: Namespaced) -> str:
    """Take a topic or group out of a namespace."""
    return str(NamespaceUtil.withoutNamespace(one.name, one.namespace))


def strip_any_namespace(name: str) -> str:
    """Take a topic or group out of whichever namespace it is in."""
    return str(NamespaceUtil.withoutNamespace(name))


def namespace_of(name: str) -> str:
    """Return the namespace that a topic or group is in."""
    return str(NamespaceUtil.getNamespaceFromResource(name))


def subscribe(expression: str) -> Subscription:
    """Read a tag expression as a consumer does."""
    data = FilterAPI.buildSubscriptionData("topic", expression)
    return Subscription(
        expression=str(data.getSubString()),
        tags=frozenset(str(tag) for tag in data.getTagsSet()),
        codes=frozenset(int(code) for code in data.getCodeSet()),
    )


def config_keys(name: str) -> list[str]:
    """Return the keys that a file can set in a class of settings, by its setters."""
    methods = java_class(name).class_.getMethods()
    names = [str(one.getName()) for one in methods if one.getParameterCount() == 1]
    return sorted({one[3].lower() + one[4:] for one in names if one.startswith("set")})


def tls_keys(_: None) -> list[str]:
    """Return the system properties of TLS, which are constants."""
    kind = java_class("TlsSystemConfig")
    constants = [one for one in kind.class_.getFields() if str(one.getName()).startswith("TLS_")]
    return sorted(str(one.get(None)) for one in constants)
