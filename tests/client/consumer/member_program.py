"""A consumer as a process of its own, which tests kill: prints a line for each message it consumed.

Lines are ``broker:queue offset body began_ns``; ``ready`` is the first.
"""

import argparse
import sys
import time

import orbitmq
from orbitmq import Consumer, StoredMessage


class Member(Consumer):
    """A consumer that says when it has joined."""

    async def start(self) -> None:
        await super().start()
        sys.stdout.write("ready\n")
        sys.stdout.flush()


def main() -> None:
    """Consume until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("nameserver")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("--ordered", action="store_true")
    parser.add_argument("--lock-interval-ms", type=int, default=20_000)
    arguments = parser.parse_args()
    consumer = Member(
        arguments.group,
        nameserver=arguments.nameserver,
        subscribe={arguments.topic: "*"},
        ordered=arguments.ordered,
        consume_from="first",
        suspend_ms=100,
        lock_interval_ms=arguments.lock_interval_ms,
        poll_nameserver_interval_ms=500,
    )

    @consumer.on_message
    async def tell(message: StoredMessage) -> None:
        began_ns = time.monotonic_ns()  # of the machine: comparable between processes
        queue = f"{message.broker_name}:{message.queue_id}"
        body = message.body.decode()
        # One write a line: a killed process leaves whole lines.
        sys.stdout.write(f"{queue} {message.queue_offset} {body} {began_ns}\n")
        sys.stdout.flush()

    orbitmq.run(consumer)


if __name__ == "__main__":
    main()
