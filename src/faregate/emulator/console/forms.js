// Form fields, and lists of what was added with a form.

import {$, el, span} from "./dom.js";
import {known} from "./feed.js";
import {short} from "./format.js";
import {patch} from "./patch.js";

/** The options of a select, from names or `[value, text]` pairs. */
export const options = given =>
	given.map(one => {
		const [value, text] = Array.isArray(one) ? one : [one, one];
		return el("option", {value, "data-key": value, text});
	});

export const selectField = (name, text, given) => el("label", {}, text, el("select", {name}, options(given)));

export const textField = (name, text, value, numeric) =>
	el("label", {}, text, el("input", {name, value, inputmode: numeric ? "decimal" : null}));

/** Offer everything, the open transaction, resources and payers as targets. The current choice stays. */
export function fillTargets(select, everything, open) {
	const {resources = [], payers = []} = known.rules ?? {},
		one = known.transactions.has(open) ? open : null,
		chosen = select.value;
	const named = new Map(payers);
	for (const address of (known.payers ?? []).map(payer => payer.address).sort())
		if (!named.has(address)) named.set(address, short(address));
	const isGone = chosen && chosen !== one && !named.has(chosen) && !resources.includes(chosen);
	const group = (label, given) => el("optgroup", {label, "data-key": label}, options(given));
	patch(select, [
		...options([["", everything]]),
		...options(one ? [[one, "the open transaction"]] : []),
		...options(isGone ? [[chosen, short(chosen)]] : []),
		group("a resource", resources),
		group("a payer", [...named])
	]);
}

/** Draw what was added, each with a button that removes it. */
export function drawList(id, rows, nothing) {
	const item = ({key, title, about, faint, remove}) =>
		el(
			"li",
			{"data-key": key},
			span(null, el("b", {text: title}), ` ${about} `, faint ? span("faint", faint) : null),
			el("button", {class: "small", "aria-label": `Remove ${key}`, text: "Remove", onclick: remove})
		);
	patch($(id), rows.length ? rows.map(item) : [el("li", {class: "none", text: nothing})]);
}
