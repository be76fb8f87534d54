"""A broker for the tests of your programs: in the test's process, with its time and its faults.

>>> from orbitmq.blocking import Producer
>>> from orbitmq.message.model import Message
>>> with start() as broker, Producer("shop", nameserver=broker.nameserver) as producer:
...     receipt = producer.send(Message("orders", b"paid", tags="paid", delay_level=18))
...     broker.advance(7_200)  # level 18: two hours
...     [message.body for message in broker.messages("orders", tags="paid")]
[b'paid']

With pytest there are fixtures (``pytest_orbitmq``). ``docs/testing.md`` has examples.
"""

from orbitmq.testing.broker.faults import Fault
from orbitmq.testing.broker.under_test import BrokerUnderTest, start

__all__ = ["BrokerUnderTest", "Fault", "start"]
