"""The journal: an idempotency store with leases, one row per payment proof.

It is written ahead, like an outbox: the claim before the service is asked, the transaction id before the
work starts, the outcome before the service is told. Rows change by compare-and-swap (optimistic concurrency),
and each lease has a fencing token: a process that was stopped past its lease can write nothing. All stores
follow one protocol, `faregate.core.interfaces.Journal`.
"""
