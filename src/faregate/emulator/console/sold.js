// What is sold, with prices, and purchases by test payers that need no application.

import {$, el, span, toast} from "./dom.js";
import {known, send} from "./feed.js";
import {price as format} from "./format.js";
import {options} from "./forms.js";
import {patch} from "./patch.js";

export function setUp() {
	$("first-payment").addEventListener("click", () => pay(known.resources.find(one => !one.archived && !one.free)?.key));
}

async function pay(resource) {
	const payer = $("test-payer").value || "good",
		made = await send("POST", "test-payments", {resource, payer});
	if (made) toast(made.message ?? `${payer} paid for ${resource}: ${made.status}.`);
}

export function draw() {
	const payers = (known.rules?.payers ?? []).map(([, name]) => name),
		hasPayers = payers.length > 0;
	patch($("test-payer"), options(payers));
	$("test-payer").parentNode.hidden = !hasPayers;
	$("first-part").hidden = !hasPayers;
	$("test-payers").textContent = hasPayers ? `Test payers: ${payers.join(", ")}.` : "";
	const rows = (known.resources ?? []).map(one => row(one, hasPayers));
	patch($("sold"), rows.length ? rows : [el("li", {class: "none", text: "Nothing is sold in this environment."})]);
}

function row(one, hasPayers) {
	const price = one.archived ? "archived" : one.free ? "free" : format(one);
	return el(
		"li",
		{"data-key": one.key},
		el("span", {title: one.name ?? ""}, el("b", {text: one.key})),
		span("price", price),
		hasPayers && !one.archived && !one.free
			? el("button", {class: "small", "aria-label": `Test payment for ${one.key}`, text: "Test payment", onclick: () => pay(one.key)})
			: null
	);
}
