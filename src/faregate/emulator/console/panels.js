// The panels beside the list: totals, payers with their balances, and the newest calls.

import {tags} from "./detail.js";
import {copy} from "./copy.js";
import {$, el, glyph, span} from "./dom.js";
import {known} from "./feed.js";
import {amount, short, time} from "./format.js";
import {patch} from "./patch.js";
import {steady} from "./steady.js";

const CALLS = 60;
const movements = new Map(),
	drawCallsSteadily = steady($("calls")),
	drawPayersSteadily = steady($("payers").closest(".side")); // more payers push down the panels below
let previous = new Map();

export function drawTotals() {
	const {authorized = 0, settling = 0, reconciling = 0, succeeded = 0, failed = 0} = known.counts ?? {};
	const revenue = known.money?.revenue ?? {};
	patch($("sums"), [
		...["USDC", "EURC"].map(asset => total(amount(revenue[asset] ?? "0"), `${asset} revenue`)),
		total(succeeded, "succeeded", "succeeded"),
		total(failed, "failed", "failed"),
		total(settling + reconciling, "pending", "settling"),
		total(authorized, "authorized", "authorized")
	]);
}

function total(value, text, state) {
	const shown = typeof value === "number" ? value.toLocaleString("en") : value;
	return el("div", {class: "sum"}, el("b", {text: shown}), span(null, state ? glyph(state) : null, text));
}

/** `whole` discards earlier movements, because these are other payers. */
export function drawPayers(whole) {
	if (whole) {
		movements.clear();
		previous = new Map();
	}
	const rows = known.payers.map(one =>
		el(
			"tr",
			{"data-key": one.address},
			el(
				"td",
				{},
				one.name ?? "unnamed",
				el("button", {
					class: "link-like",
					title: one.address,
					"aria-label": `Copy ${one.address}`,
					text: short(one.address),
					onclick: () => copy(one.address, one.address)
				})
			),
			el("td", {class: "n", text: `${one.succeeded} / ${one.transactions}`}),
			...["USDC", "EURC"].map(asset => balance(one, asset))
		)
	);
	previous = new Map(known.payers.map(one => [one.address, one.balances]));
	if (!rows.length) rows.push(el("tr", {}, el("td", {colspan: 4, class: "none", text: "No payers yet."})));
	drawPayersSteadily(() => patch($("payers").tBodies[0], rows));
}

function balance(one, asset) {
	if (!one.balances) return el("td", {class: "n", text: "?"});
	const balanceBefore = previous.get(one.address)?.[asset],
		name = `${one.address} ${asset}`;
	if (balanceBefore !== undefined && balanceBefore !== one.balances[asset]) movements.set(name, BigInt(one.balances[asset]) - BigInt(balanceBefore));
	const by = movements.get(name),
		held = one.held[asset] === "0" ? null : `${amount(one.held[asset])} reserved`;
	return el(
		"td",
		{class: "n"},
		amount(one.balances[asset]),
		by ? el("small", {class: by > 0n ? "up" : "down", text: `${by > 0n ? "▲ +" : "▼ "}${amount(by)}`}) : null,
		held ? el("small", {text: held}) : null
	);
}

/** `choose` gets the call that was pressed. */
export const calls = choose => drawCallsSteadily(() => drawCalls(choose));

function drawCalls(choose) {
	const newest = [...known.calls.values()].slice(-CALLS).reverse();
	$("calls-count").textContent = newest.length ? `latest of ${newest[0].number.toLocaleString("en")}` : "";
	patch(
		$("calls"),
		newest.length
			? newest.map(one => el("li", {"data-key": one.number}, call(one, choose)))
			: [el("li", {class: "none", text: "No calls yet."})]
	);
}

/** The first answer of every sale, nothing to worry about. */
const isPrice = one => one.operation === "access" && one.status === 402 && !one.proof;

function call(one, choose) {
	const about = one.refusal ? `${one.resource ?? ""} ${one.refusal.message}` : (one.resource ?? "");
	const children = [
		el("b", {
			class: one.ending !== "whole" ? "broken" : isPrice(one) ? "price-asked" : `code${String(one.status)[0]}`,
			text: one.status ?? "–"
		}),
		span(null, one.operation ?? `${one.method} ${one.path}`),
		span("about", about),
		span(null, tags(one), " ", el("time", {text: time(one.at).slice(0, 8)}))
	];
	return el("button", {onclick: () => choose(one, known.transactions.has(one.transaction))}, children);
}
