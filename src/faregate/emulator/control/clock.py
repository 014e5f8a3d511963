"""`/_emulator/worlds/{name}/clock`: what time it is there; forward, stop, go."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.clock import EmulatorClock, Mode
from faregate.emulator.control.common import get_emulator, json_response, parse_body

PATH = "/_emulator/worlds/{name}/clock"


class ClockView(BaseModel):
    """What the clock shows. `rate` is its seconds for one real second."""

    now: datetime
    mode: Mode
    rate: float


class ClockChange(BaseModel):
    """Exactly one of the three; `freeze` is a moment to come, or null for now."""

    model_config = ConfigDict(extra="forbid")

    advance: Annotated[float, Field(strict=True)] | None = None
    freeze: AwareDatetime | None = None
    run: Annotated[float, Field(strict=True)] | None = None

    @model_validator(mode="after")
    def _one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of advance, freeze and run")
        if "freeze" not in self.model_fields_set and self.advance is None and self.run is None:
            raise ValueError("only freeze may be null")
        return self

    def make(self, clock: EmulatorClock) -> None:
        """`ConfigurationError` if the clock cannot do this."""
        if self.advance is not None:
            clock.advance(self.advance)
        elif self.run is not None:
            clock.run(self.run)
        else:
            clock.freeze(self.freeze)


_change: TypeAdapter[ClockChange] = TypeAdapter(ClockChange)


def build_clock_routes() -> list[Route]:
    return [Route(PATH, show_clock, methods=["GET"]), Route(PATH, change_clock, methods=["POST"])]


async def show_clock(request: Request) -> Response:
    """The moment it is in the world, the clock's mode (frozen, real or scaled) and its rate."""
    return json_response(_build_view(get_emulator(request).clock))


async def change_clock(request: Request) -> Response:
    """{"advance": seconds}, {"freeze": null or a moment}, or {"run": rate}; answers as GET does."""
    clock = get_emulator(request).clock
    (await parse_body(request, _change)).make(clock)
    return json_response(_build_view(clock))


def _build_view(clock: EmulatorClock) -> ClockView:
    return ClockView(now=clock(), mode=clock.mode, rate=clock.rate)
