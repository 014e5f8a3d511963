"""The journal: an idempotency store with leases, one row per payment proof.

It is written ahead, like an outbox: the claim before access, the transaction id before the work starts, the
outcome before complete. Rows change by compare-and-swap (optimistic concurrency), and each lease has a
fencing token: a process that was stopped past its lease can write nothing. All journals follow one protocol,
`faregate.core.interfaces.Journal`.
"""
