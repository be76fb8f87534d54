"""A job in a process of its own, to be killed.

python -m tests.spark.jobs.job_program archive NAMESERVER TOPIC DIRECTORY
python -m tests.spark.jobs.job_program replay NAMESERVER TOPIC DIRECTORY LEDGER RATE
"""

import sys

from orbitmq.spark import session
from orbitmq.spark.jobs.archive import archive
from orbitmq.spark.jobs.archiving.rows import Archive
from orbitmq.spark.jobs.replay import Rate, replay
from orbitmq.spark.jobs.sources import Topics


def main(job: str, nameserver: str, topic: str, directory: str, *more: str) -> None:
    spark = session("job_program", master="local[2]")
    print("ready", flush=True)
    topics = Topics(nameserver, (topic,))
    if job == "archive":
        archive(spark, topics, directory)
    else:
        ledger, rate = more
        replay(spark, Archive(directory), topics, ledger, rate=Rate(messages=float(rate)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
