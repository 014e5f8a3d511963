// How payments end: the rules, and a form to add one.

import {$, el} from "./dom.js";
import {send, known} from "./feed.js";
import {rule, short} from "./format.js";
import {selectField, textField, drawList, fillTargets} from "./forms.js";

const MEASURES = [
	["at_once", "at once"],
	["after_seconds", "after seconds"],
	["after_reads", "after reads"],
	["until_expiry", "when the authorization expires"],
	["manual", "on Settle or Fail"]
];
const form = $("add-rule");

export function setUp() {
	form.replaceChildren(
		selectField("target", "Payments of", []),
		selectField("measure", "End", MEASURES),
		textField("count", "Seconds or reads", 5, true),
		selectField("via", "Status until then", ["settling", "reconciling"]),
		selectField("to", "Final status", ["succeeded", "failed"]),
		el("button", {class: "wide", type: "submit", text: "Add rule"})
	);
	form.elements.measure.onchange = showFields;
	form.onreset = () => setTimeout(showFields);
	form.onsubmit = event => {
		event.preventDefault();
		setRule(form.elements.target.value || "*", readSettlement(), "Rule added.");
	};
	showFields();
}

/** Show only the fields that this measure needs. */
function showFields() {
	const {measure, count, via, to} = form.elements,
		counted = measure.value.startsWith("after");
	count.parentNode.hidden = !counted;
	via.parentNode.hidden = measure.value === "at_once";
	to.parentNode.hidden = !counted && measure.value !== "at_once";
}

function readSettlement() {
	const {measure, count, via, to} = form.elements;
	if (measure.value === "at_once") return {after_seconds: 0, to: to.value};
	if (!measure.value.startsWith("after")) return {[measure.value]: true, via: via.value};
	return {[measure.value]: Number(count.value), via: via.value, to: to.value};
}

const setRule = (target, body, message) => send("PUT", `settlements/${encodeURIComponent(target)}`, body, message);

const removeRule = (target, own) =>
	own
		? setRule(target, own, "Initial rule restored.")
		: send("DELETE", `settlements/${encodeURIComponent(target)}`, undefined, "Rule removed.");

/**
 * Open the form for a transaction and focus it. Nothing in the form may change between opening and focusing:
 * Chromium (156) would then not scroll it into view.
 */
export function focusForm(id) {
	$("rule-part").open = true;
	form.elements.target.value = id;
	form.elements.measure.focus();
}

/** `open` is the transaction that the form offers as a target. */
export function draw(open) {
	fillTargets(form.elements.target, "all", open);
	fillTargets($("add-fault").elements.target, "any call", open);
	const rows = (known.rules?.set ?? []).map(one => ({
		key: one.target,
		title: one.target === "*" ? "all" : (one.name ?? short(one.target)),
		about: rule(one.rule),
		remove: () => removeRule(one.target, one.own)
	}));
	drawList("rules", rows, "Payments settle at once, unless their payer or resource has a rule of its own.");
}
