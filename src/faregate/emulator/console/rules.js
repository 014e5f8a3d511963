// How payments end: the rules that were set, and a form for one more.

import {$, el} from "./dom.js";
import {attempt, known} from "./feed.js";
import {rule, short} from "./format.js";
import {choice, field, listed, targets} from "./forms.js";

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
		choice("target", "Payments of", []),
		choice("measure", "End", MEASURES),
		field("count", "Seconds or reads", 5, true),
		choice("via", "Status until then", ["settling", "reconciling"]),
		choice("to", "Final status", ["succeeded", "failed"]),
		el("button", {class: "wide", type: "submit", text: "Add rule"})
	);
	form.elements.measure.onchange = shape;
	form.onreset = () => setTimeout(shape);
	form.onsubmit = event => {
		event.preventDefault();
		put(form.elements.target.value || "*", settlement(), "Rule added.");
	};
	shape();
}

/** Only what this measure takes is asked for. */
function shape() {
	const {measure, count, via, to} = form.elements,
		counted = measure.value.startsWith("after");
	count.parentNode.hidden = !counted;
	via.parentNode.hidden = measure.value === "at_once";
	to.parentNode.hidden = !counted && measure.value !== "at_once";
}

function settlement() {
	const {measure, count, via, to} = form.elements;
	if (measure.value === "at_once") return {after_seconds: 0, to: to.value};
	if (!measure.value.startsWith("after")) return {[measure.value]: true, via: via.value};
	return {[measure.value]: Number(count.value), via: via.value, to: to.value};
}

const put = (target, body, said) => attempt("PUT", `settlements/${encodeURIComponent(target)}`, body, said);

const remove = (target, own) =>
	own
		? put(target, own, "Initial rule restored.")
		: attempt("DELETE", `settlements/${encodeURIComponent(target)}`, undefined, "Rule removed.");

/**
 * For the open transaction, with the keyboard there. Nothing in the form may change between its unfolding and
 * the focus: Chromium (156) would leave it out of sight.
 */
export function ask(id) {
	$("rule-part").open = true;
	form.elements.target.value = id;
	form.elements.measure.focus();
}

/** `open` is the transaction that can be chosen. */
export function draw(open) {
	targets(form.elements.target, "all", open);
	targets($("add-fault").elements.target, "any call", open);
	const rows = (known.rules?.set ?? []).map(one => ({
		key: one.target,
		title: one.target === "*" ? "all" : (one.name ?? short(one.target)),
		about: rule(one.rule),
		remove: () => remove(one.target, one.own)
	}));
	listed("rules", rows, "Payments settle at once, unless their payer or resource has a rule of its own.");
}
