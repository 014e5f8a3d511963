// A transaction as a test with faregate's pytest fixtures: the same price, the same outcome.

import {PENDING} from "./timeline.js";

const formatValues = values =>
	Object.entries(values ?? {}).map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value)}`);

const OTHER_ACCOUNT = `
# The built-in account does not sell this at this price: override the fixture emulator_account with your own
# account, such as Account.from_toml(Path("account.toml").read_text()).`;

/** A complete file, whose app stands in for the seller's own. */
export function pytestOf(one) {
	const statuses = one.history.map(([, status]) => status).slice(1);
	const name = [one.resource, ...statuses].join("_");
	return `"""${one.id}: ${one.resource}, authorized${statuses.map(status => `, ${status}`).join("")}."""

from faregate.emulator import Emulator, SettlementRule
from faregate.starlette import PaywallMiddleware, paid
from faregate.testing import Payer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.testclient import TestClient


@paid("${one.resource}")
async def sell(request: Request) -> JSONResponse:
${buildHandler(one)}


app = Starlette(routes=[Route("/sold", sell)])  # or your own
app.add_middleware(PaywallMiddleware)

${one.built_in ? "" : OTHER_ACCOUNT}
def test_${name}(emulator: Emulator, payer: Payer) -> None:
    client = TestClient(app)
${[...buildRule(one, statuses), ...buildSteps(one, statuses)].map(line => `    ${line}`).join("\n")}
`;
}

function buildHandler(one) {
	if (one.completed?.outcome === "failed")
		return `    return JSONResponse({"error": ${JSON.stringify(one.completed.failure_code)}}, 500)`;
	const values = formatValues(one.completed?.values);
	const report = values.length ? [`    request.state.payment.report({${values.join(", ")}})`] : [];
	return [...report, '    return JSONResponse({"sold": True})'].join("\n");
}

/** Set a rule for the payer, which takes precedence over a rule of the resource. */
function buildRule(one, statuses) {
	if (one.completed?.outcome === "failed") return [];
	const via = statuses.find(status => PENDING.includes(status));
	const rule = via
		? `manual=True, via="${via}"`
		: `after_seconds=0, to="${statuses[0] === "failed" ? "failed" : "succeeded"}"`;
	return [`emulator.settle_after(payer.address, SettlementRule(${rule}))`];
}

function buildSteps(one, statuses) {
	const balance = `emulator.balance(payer.address, "${one.asset}")`;
	const pending = statuses.some(status => PENDING.includes(status)),
		last = statuses.at(-1) ?? "succeeded";
	const kept = [`assert ${balance} == before`],
		spent = [`assert ${balance} == before - ${one.amount}`];
	const lines = [
		`before = ${balance}`,
		'assert payer.ask(client, "/sold").status == 402',
		'answer = payer.get(client, "/sold")'
	];
	if (one.completed?.outcome === "failed")
		return [...lines, "assert (answer.status, answer.paid) == (500, False)", ...kept];
	if (pending) lines.push("assert (answer.status, answer.paid) == (202, False)");
	if (pending && PENDING.includes(last)) return [...lines, ...kept];
	if (pending)
		lines.push(
			`emulator.${last === "failed" ? "fail" : "settle"}(answer.transaction or "")`,
			"answer = payer.again(answer)"
		);
	return [...lines, ...(last === "failed" ? ["assert not answer.paid", ...kept] : ["assert answer.paid", ...spent])];
}
