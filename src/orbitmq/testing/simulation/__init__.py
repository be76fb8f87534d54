"""Whole clusters simulated in virtual time: servers, clients, failures, histories and laws.

::

    plan ─▶ servers, senders, pullers, members ┐
            troubles                           ┴─▶ calm ─▶ replicas compared ─▶ stop ─▶ files
            verified ─▶ start ─▶ all queues read ─▶ history ─▶ laws

One seed decides everything: what is sent, how long bytes and syncs take, what is lost, and when
something is killed. A seed always gives the same run. ``python -m orbitmq.testing.simulation`` runs
many.

>>> from orbitmq.testing.simulation.run import simulate
>>> from orbitmq.testing.simulation.laws import broken_laws
>>> broken_laws(simulate(7))
[]
"""
