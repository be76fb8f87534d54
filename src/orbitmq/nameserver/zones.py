"""Zones: clients can ask for the brokers of their own zone only (Java's ``ZoneRouteRPCHook``)."""

import msgspec

from orbitmq.wire.bodies.route import BrokerData, TopicRouteData

__all__ = ["within_zone"]

_MASTER_ID = 0


def within_zone(route: TopicRouteData, zone: str) -> TopicRouteData:
    """Return the part of a route that is in a zone.

    A broker without a master always stays: its replicas may be the only ones to read from.

    >>> near, far = (
    ...     BrokerData(broker_name=name, broker_addrs={0: f"{name}:10911"}, zone_name=zone)
    ...     for name, zone in (("broker-a", "east"), ("broker-b", "west"))
    ... )
    >>> route = within_zone(TopicRouteData(broker_datas=(near, far)), "East")
    >>> [broker.broker_name for broker in route.broker_datas]
    ['broker-a']
    """
    kept, left_out = [], {}
    for broker in route.broker_datas:
        if _MASTER_ID not in broker.broker_addrs or _is_in(broker, zone):
            kept.append(broker)
        else:
            left_out[broker.broker_name] = broker
    addresses = {at for broker in left_out.values() for at in broker.broker_addrs.values()}
    return msgspec.structs.replace(
        route,
        broker_datas=tuple(kept),
        queue_datas=tuple(one for one in route.queue_datas if one.broker_name not in left_out),
        filter_server_table={
            address: servers
            for address, servers in route.filter_server_table.items()
            if address not in addresses
        },
    )


def _is_in(broker: BrokerData, zone: str) -> bool:
    return (broker.zone_name or "").lower() == zone.lower()
