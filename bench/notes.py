"""Why an aim is missed, what was tried, and what it would take; shown where it is missed."""

from typing import Final

__all__ = ["NOTES"]

NOTES: Final = {
    "broker.send": (
        "nine of the microseconds are Python: 0.7 for the header, 0.6 for the properties, "
        "1.8 for the record, 1.5 to 2.5 for index entries, 0.6 for the answer, 3 for loop "
        "and socket. Sends of a read already go together, and each step is a loop over all "
        "of them; what is left is the interpreter. The compiled kernel meets the aim."
    ),
    "broker.connections": (
        "each message has a read and a write of its own, some 20 µs of system calls and "
        "event loop that batches don't save. With the compiled kernel it is at the aim; "
        "more would take another way to wait for sockets."
    ),
    "broker.send-4.9": ("as for a send; the header is JSON with short names in both cases."),
    "broker.batch": (
        "a batch is a frame that goes the careful way, and each of its messages becomes a "
        "record with its queue entry and index entries. Tried: remembered labels of batch "
        "texts, answers joined before the write; neither helped. The compiled kernel halves "
        "the cost. Batches cut together with the single sends around them would be next."
    ),
    "broker.pull": (
        "pulled bytes are views of a map and are not copied; what is left is the header of "
        "each request, its answer from a form, and the socket. Java is warm after a million "
        "messages and does the same. A compiled header would be next."
    ),
    "broker.long-poll": ("half is the send, half the pull; see both."),
    "broker.delay": (
        "a delayed message is stored twice: its send takes the careful way, because its "
        "properties change, and the due copy is a message of its own. Delayed sends need a "
        "place in the plain way, as halves of transactions have it, and the copies of a "
        "tick have to become one batch of records."
    ),
    "broker.timer": (
        "as for delay levels, with an entry in the wheel, a read of the record when it is "
        "taken in, and another when it is due. Taking in the entries of a tick together "
        "would be next."
    ),
    "broker.transaction": (
        "three requests' worth of work: a half message, its commit, the delivered copy. "
        "Halves of a read go together, and usual commits change the text as bytes, which "
        "took off a fifth. Left is the commit: a frame of its own, which reads the half "
        "back and checks it. Commits of a read would have to become records of one batch "
        "with the halves around them; 45 to 50 µs by estimate."
    ),
    "client.1": ("one send at a time is a trip through the event loop for each."),
    "client.64": (
        "sends of a turn leave together, and answers of a read settle together; what is "
        "left is a future and a receipt for each send, and asyncio's loop. Flushing early "
        "costs a little CPU here and gives the throughput below."
    ),
    "client.1024": (
        "as with 64 in flight; a warm Java client is at its best here. Compiled framing and "
        "settling would be next."
    ),
    "client.batches": (
        "the messages of a batch are packed in one pass; a compiled pass would be next."
    ),
    "client.gathered": (
        "each message still has a future of its own and is counted against the limits in "
        "flight; packing its properties is the rest. One object for all sends of a gathered "
        "batch, or a compiled pass over them, would be next."
    ),
    "client.threads": (
        "a thread waits for a loop in another thread: two hand-overs under Python's lock "
        "for each send. Hand-overs are collected, one wake-up for many sends. The aim would "
        "take a socket for each thread."
    ),
    "client.consumer": (
        "1.3 µs are for opening a record, 1.5 for the delivery, 1 for the socket. A "
        "compiled walk over the records would be next."
    ),
    "latency.p50": (
        "a send waits for the turn of the loop that has its broker's reads; Java answers "
        "from a thread that was waiting. Its tail is longer: see p99 and p99.9."
    ),
    "latency.handler-p50": ("equal within the noise."),
    "start.ready": (
        "most of it is importing Python modules: 0.2 s of CPU for those of the broker. "
        "Commands import their own modules only; what is left would take fewer or later "
        "imports in the broker itself."
    ),
    "start.in-test": (
        "as for start to ready, most of it is importing Python modules, which a test run does "
        "once; the second cluster of a process starts in 5 ms."
    ),
    "start.recovery": (
        "a start after a kill reads the log from the last file that the checkpoint vouches "
        "for, compares each checksum and queue entry, and writes again what isn't vouched "
        "for, since a failed fsync may hide behind it. Java trusts what it finds. A newer "
        "checkpoint while the broker runs, or reading from inside a file, would shorten it."
    ),
    "growth.queues": ("entries of a turn go to more queues, so fewer of them share a step."),
    "growth.connections": (
        "with 64 messages in flight on one connection a read brings many, on 2,000 "
        "connections it brings one: the cost is that of a read and a write for each "
        "message, reached at 64 connections already, and doesn't grow behind that."
    ),
    "growth.topics": (
        "each message of a read is of another topic, so each has its own lookups, counters "
        "and a write of its own to a queue file: 1.5 µs for the write, 0.6 for the counters, "
        "0.4 for the topic. Files of queues stay open, up to half of the limit of the process; "
        "before, each was opened for its entry, some 3 µs."
    ),
}
