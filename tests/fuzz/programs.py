"""Random programs: what an application does in one request, step by step. Pure."""

from dataclasses import dataclass
from random import Random
from typing import Any

STATUSES = (
    200,
    200,
    200,
    201,
    204,
    206,
    226,
    301,
    302,
    303,
    304,
    307,
    399,
    400,
    402,
    404,
    409,
    416,
    500,
    503,
    599,
)
RAISES = ("error", "error", "cancelled", "exit", "generator", "group", "interrupt", "stop")
BAD_HEADERS: tuple[tuple[Any, Any], ...] = (
    (b"x-a\r\nx-b", b"1"),
    (b"x-c", b"1\r\nset-cookie: a=b"),
    (b"", b"1"),
    (b"content-length", b"3"),
    (b"transfer-encoding", b"chunked"),
    (b"payment-response", b"Zm9yZ2Vk"),
    ("x-text", "1"),
    (b"x-none", None),
    (b"\xc3\xa9", b"1"),
)
MESSAGES = ("debug", "pathsend", "zerocopysend", "trailers", "early_hint", "push", "unknown")
MIDDLEWARE = ("duplicate", "reorder", "buffer", "late start", "swallow", "status", "drop end", "twice")


@dataclass(frozen=True)
class Step:
    """`kind` is what is done. `catches`: the program goes on, whatever is raised."""

    kind: str
    value: Any = None
    catches: bool = False


Program = tuple[Step, ...]


def pick_status(random: Random) -> int:
    return random.choice(STATUSES) if random.random() < 0.9 else random.randrange(100, 600)


def make_headers(random: Random) -> tuple[str, ...]:
    """Names of headers that will bear the mark; a number stands for one of `BAD_HEADERS`."""
    names = [name for name in ("x-mark", "location", "set-cookie") if random.random() < 0.4]
    if random.random() < 0.08:
        names.append(str(random.randrange(len(BAD_HEADERS))))
    return tuple(names)


def make_step(random: Random, depth: int = 0) -> Step:
    catches = random.random() < 0.4
    kind = random.choice(
        ("start", "start", "body", "body", "end", "end", "require", "require", "message", "receive", "raise",
         "sleep",
         "state", "context", "offer", "cancel", "spawn", "nothing")
    )  # fmt: skip
    value: Any = None
    match kind:
        case "start":
            value = (pick_status(random), make_headers(random))
        case "require":
            how = random.choice(("await", "await", "await", "await", "forget", "task", "late", "twice"))
            value = (how, int(random.random() < 0.1))
        case "message":
            value = random.choice(MESSAGES)
        case "raise":
            value = random.choice(RAISES)
        case "sleep":
            value = random.randrange(1, 4)
        case "spawn" if depth < 2:
            value = (make_program(random, depth + 1), random.random() < 0.5)
        case "spawn":
            kind = "nothing"
        case _:
            pass
    return Step(kind, value, catches)


def make_program(random: Random, depth: int = 0) -> Program:
    """A program of random steps; most of the time a sensible one with random steps in it."""
    if depth or random.random() < 0.25:
        return tuple(make_step(random, depth) for _ in range(random.randrange(1, 5 if depth else 9)))
    sensible = [
        Step("require", ("await", 0), random.random() < 0.15),
        Step("start", (pick_status(random), make_headers(random))),
        Step("body"),
        Step("end"),
    ]
    for _ in range(random.randrange(4)):
        change = random.random()
        place = random.randrange(len(sensible) + 1)
        if change < 0.7:
            sensible.insert(place, make_step(random))
        elif change < 0.85 and len(sensible) > 1:
            sensible.pop(min(place, len(sensible) - 1))
        elif len(sensible) > 1:
            other = random.randrange(len(sensible))
            place = min(place, len(sensible) - 1)
            sensible[place], sensible[other] = sensible[other], sensible[place]
    return tuple(sensible)


def make_middleware(random: Random) -> tuple[str, ...]:
    return tuple(random.choice(MIDDLEWARE) for _ in range(random.choice((0, 0, 0, 1, 1, 2))))


def write(program: Program, indent: str = "    ") -> str:
    lines: list[str] = []
    for step in program:
        caught = "  # whatever it raises is caught" if step.catches else ""
        if step.kind == "spawn":
            steps, joins = step.value
            lines += [
                f"{indent}spawn, {'joined' if joins else 'left'}:{caught}",
                write(steps, indent + "    "),
            ]
        else:
            lines.append(f"{indent}{step.kind} {'' if step.value is None else step.value}{caught}")
    return "\n".join(lines)
