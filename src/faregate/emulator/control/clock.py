"""`/_emulator/tenants/{name}/clock`: read the clock; advance, freeze or run it."""

from datetime import datetime
from typing import Annotated, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.clock import EmulatorClock, Mode
from faregate.emulator.control.common import TENANT, get_emulator, json_response, parse_body

PATH = f"{TENANT}/clock"


class ClockView(BaseModel):
    """The state of the clock. `rate` is its seconds per real second."""

    now: datetime
    mode: Mode
    rate: float


class ClockChange(BaseModel):
    """Exactly one of the three. `freeze` is a future moment, or null for now."""

    model_config = ConfigDict(extra="forbid")

    advance: Annotated[float, Field(strict=True)] | None = None
    freeze: AwareDatetime | None = None
    run: Annotated[float, Field(strict=True)] | None = None

    @model_validator(mode="after")
    def _check_exactly_one(self) -> Self:
        if len(self.model_fields_set) != 1:
            raise ValueError("give exactly one of advance, freeze and run")
        if "freeze" not in self.model_fields_set and self.advance is None and self.run is None:
            raise ValueError("only freeze may be null")
        return self

    def apply(self, clock: EmulatorClock) -> None:
        """Change the clock. Raises `ConfigurationError`, such as for a moment that has passed."""
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
    """Return the current time, the clock's mode (frozen, real or scaled) and its rate."""
    return json_response(_view_clock(get_emulator(request).clock))


async def change_clock(request: Request) -> Response:
    """Change the clock: {"advance": seconds}, {"freeze": null or a moment}, or {"run": rate}."""
    clock = get_emulator(request).clock
    (await parse_body(request, _change)).apply(clock)
    return json_response(_view_clock(clock))


def _view_clock(clock: EmulatorClock) -> ClockView:
    return ClockView(now=clock(), mode=clock.mode, rate=clock.rate)
