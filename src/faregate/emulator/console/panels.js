// The panels beside the list: sums, payers with their balances as they move, the newest calls.

import {tags} from "./detail.js";
import {copy} from "./copy.js";
import {$, el, glyph, span} from "./dom.js";
import {known} from "./feed.js";
import {amount, short, time} from "./format.js";
import {patch} from "./patch.js";
import {steady} from "./steady.js";

const CALLS = 60;
const moved = new Map(),
	callsDrawn = steady($("calls")),
	payersDrawn = steady($("payers").closest(".side")); // they push down what is below them
let before = new Map();

export function sums() {
	const {authorized = 0, settling = 0, reconciling = 0, succeeded = 0, failed = 0} = known.counts ?? {};
	const revenue = known.money?.revenue ?? {};
	patch($("sums"), [
		...["USDC", "EURC"].map(asset => sum(amount(revenue[asset] ?? "0"), `${asset} revenue`)),
		sum(succeeded, "succeeded", "succeeded"),
		sum(failed, "failed", "failed"),
		sum(settling + reconciling, "pending", "settling"),
		sum(authorized, "authorized", "authorized")
	]);
}

function sum(value, text, state) {
	const shown = typeof value === "number" ? value.toLocaleString("en") : value;
	return el("div", {class: "sum"}, el("b", {text: shown}), span(null, state ? glyph(state) : null, text));
}

/** `whole` forgets what moved: these are other payers. */
export function payers(whole) {
	if (whole) {
		moved.clear();
		before = new Map();
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
	before = new Map(known.payers.map(one => [one.address, one.balances]));
	if (!rows.length) rows.push(el("tr", {}, el("td", {colspan: 4, class: "none", text: "No payers yet."})));
	payersDrawn(() => patch($("payers").tBodies[0], rows));
}

function balance(one, asset) {
	if (!one.balances) return el("td", {class: "n", text: "?"});
	const was = before.get(one.address)?.[asset],
		name = `${one.address} ${asset}`;
	if (was !== undefined && was !== one.balances[asset]) moved.set(name, BigInt(one.balances[asset]) - BigInt(was));
	const by = moved.get(name),
		held = one.held[asset] === "0" ? null : `${amount(one.held[asset])} reserved`;
	return el(
		"td",
		{class: "n"},
		amount(one.balances[asset]),
		by ? el("small", {class: by > 0n ? "up" : "down", text: `${by > 0n ? "▲ +" : "▼ "}${amount(by)}`}) : null,
		held ? el("small", {text: held}) : null
	);
}

/** `choose` is told of the transaction of a call. */
export const calls = choose => callsDrawn(() => drawCalls(choose));

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

function call(one, choose) {
	const about = one.refusal ? `${one.resource ?? ""} ${one.refusal.message}` : (one.resource ?? "");
	const children = [
		el("b", {
			class: one.ending === "whole" ? `code${String(one.status)[0]}` : "broken",
			text: one.status ?? "–"
		}),
		span(null, one.operation ?? `${one.method} ${one.path}`),
		span("about", about),
		span(null, tags(one), " ", el("time", {text: time(one.at).slice(0, 8)}))
	];
	return el("button", {onclick: () => choose(one, known.transactions.has(one.transaction))}, children);
}
