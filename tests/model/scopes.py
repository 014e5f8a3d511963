"""The small models that are searched: in every run of the suite, and larger ones by hand."""

from tests.model.backend import BAD_WORK, REFUSES, SLOWLY, WAITS
from tests.model.scope import ANEW, FIRST, Scope

SUITE = (
    Scope("two requests with one proof"),
    Scope("two encodings of one payment", proofs=(FIRST, ANEW), crashes=1, courses=()),
    Scope("a payment that settles without us", crashes=0, courses=(WAITS,), far=True),
    Scope("a proof that is refused at first", crashes=1, courses=(REFUSES,)),
    Scope("a store that fails once", crashes=0, courses=(), store_faults=1),
)
EVERYTHING = (SLOWLY, WAITS, REFUSES, BAD_WORK)
LARGE = (
    Scope("two requests, any course", courses=EVERYTHING),
    Scope("two encodings, any course", proofs=(FIRST, ANEW), courses=EVERYTHING),
    Scope("two walks, far jumps", courses=(SLOWLY, BAD_WORK), sweeps=2, crashes=1, far=True),
    Scope("a store that fails twice", crashes=1, store_faults=2),
    Scope("two encodings, a store that fails", proofs=(FIRST, ANEW), crashes=1, store_faults=1),
    Scope("three requests, two encodings", proofs=(FIRST, FIRST, ANEW), crashes=0, courses=()),
)
