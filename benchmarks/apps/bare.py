"""No paywall at all: what everything else is compared with."""

from goods import shop

app = shop()
