"""`/_emulator/tenants`: list, create and delete tenants, each an account of its own on this server."""

from typing import Annotated, Final

from pydantic import Field, JsonValue, TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from faregate.emulator.control.common import (
    ControlError,
    build_validation_error,
    get_tenants,
    json_response,
    parse_body,
)
from faregate.emulator.tenants import MAIN, Tenants
from faregate.rules.account import Account, FrozenModel
from faregate.rules.builtin_account import build_tenant_keys, is_valid_name


class NewTenant(FrozenModel):
    name: str
    seed: Annotated[int | str, Field(union_mode="left_to_right")] | None = None
    account: dict[str, JsonValue] | None = None


_new: TypeAdapter[NewTenant] = TypeAdapter(NewTenant)


async def list_tenants(request: Request) -> Response:
    """List the tenants with their names and API keys."""
    tenants = get_tenants(request)
    return json_response({"tenants": [_format_tenant(tenants, name) for name in tenants.names]})


async def create_tenant(request: Request) -> Response:
    """Create a tenant before its first call, with an optional seed and the content of an account file."""
    new = await parse_body(request, _new)
    tenants = get_tenants(request)
    tenants.get_or_create(new.name, account=_build_account(new), seed=new.seed)
    return json_response(_format_tenant(tenants, new.name), 201)


async def delete_tenant(request: Request) -> Response:
    """Delete a tenant; a call with its keys creates it again."""
    name: str = request.path_params["name"]
    if name == MAIN:
        raise ControlError(422, "invalid_request", "the main tenant cannot be deleted; reset it instead")
    if not get_tenants(request).delete(name):
        raise ControlError(404, "tenant_not_found", f"there is no tenant {name!r}")
    return Response(status_code=204)


def _build_account(new: NewTenant) -> Account | None:
    """Build the tenant from the file's content; its keys are always those of its name."""
    if new.account is None or not is_valid_name(new.name):
        return None
    keys = [key.model_dump() for key in build_tenant_keys(new.name)]
    try:
        return Account.model_validate({**new.account, "keys": keys})
    except ValidationError as error:
        raise build_validation_error(error, "account") from None


def _format_tenant(tenants: Tenants, name: str) -> dict[str, object]:
    # The keys are shown, because they are test data of this machine and worth nothing elsewhere.
    keys = tenants.main.account.keys if name == MAIN else build_tenant_keys(name)
    return {"name": name, "keys": [key.key for key in keys]}


ROUTES: Final = (
    Route("/_emulator/tenants", list_tenants, methods=["GET"]),
    Route("/_emulator/tenants", create_tenant, methods=["POST"]),
    Route("/_emulator/tenants/{name}", delete_tenant, methods=["DELETE"]),
)
