// The list of transactions: a row each, newest first, its story as a track of stops and legs.

import {$, el, glyph} from "./dom.js";
import {known, present} from "./feed.js";
import {amount, duration, payerName} from "./format.js";
import {isFinal, PENDING, stops, total} from "./story.js";

const rows = new Map();
let open = null,
	used = null,
	filter = "",
	choose = () => {};

export function setUp(chosen) {
	choose = chosen;
	$("filter").addEventListener("change", event => {
		filter = event.target.value;
		draw(true);
	});
}

/** Draws what changed; everything if `whole`. */
export function draw(whole, changed = []) {
	if (whole) {
		rows.clear();
		$("list").replaceChildren();
		changed = known.transactions.values();
	}
	for (const one of changed) put(known.transactions.get(one.id), whole);
	for (const id of [...rows.keys()])
		if (!known.transactions.has(id)) {
			rows.get(id).remove();
			rows.delete(id);
		}
	const count = $("list").childElementCount,
		all = Object.values(known.counts ?? {}).reduce((sum, n) => sum + n, 0);
	$("nothing").hidden = all > 0;
	$("shown").textContent = all ? `${count} of ${all.toLocaleString("en")}` : "";
	hold();
}

function put(one, whole) {
	if (!one) return;
	const item = rows.get(one.id);
	if (!fits(one)) {
		item?.remove();
		rows.delete(one.id);
		return;
	}
	if (item) {
		fill(item.firstChild, one);
		return;
	}
	const button = el("button", {
		class: whole ? "row" : "row fresh",
		tabindex: -1,
		"data-id": one.id,
		"aria-expanded": String(one.id === open),
		"aria-controls": "detail",
		onclick: () => choose(one.id)
	});
	fill(button, one);
	const fresh = el("li", {}, button);
	rows.set(one.id, fresh);
	const after = [...$("list").children].find(
		other => known.transactions.get(other.firstChild.dataset.id)?.number < one.number
	);
	$("list").insertBefore(fresh, after ?? null);
}

const fits = one => !filter || one.status === filter || (filter === "pending" && PENDING.includes(one.status));

function fill(button, one) {
	const now = present();
	button.replaceChildren(
		el("span", {class: `status is-${one.status}`}, glyph(one.status), one.status),
		el(
			"span",
			{class: "what"},
			el("span", {text: one.resource}),
			el("span", {class: "faint"}, payerName(one), ...struck(one))
		),
		el("span", {class: "track"}, track(one, now)),
		el(
			"span",
			{class: "sum-of"},
			el("span", {text: `${amount(one.amount)} ${one.asset}`}),
			el("span", {class: "faint", text: duration(total(one, now))})
		)
	);
}

/** Why the work failed, and the faults that struck its calls. */
function struck(one) {
	const names = one.calls.map(number => known.calls.get(number)?.fault).filter(Boolean);
	return [...new Set([one.completed?.failure_code, ...names])]
		.filter(Boolean)
		.map(name => el("span", {class: "tag broken", text: name}));
}

/** Each leg is as long as the root of its time: short ones can still be read. */
function track(one, now) {
	return stops(one, now).flatMap(step => {
		const stop =
			step.state === "asked"
				? el("span", {class: "stop code is-asked", text: "402"})
				: el(
						"span",
						{class: "stop", title: step.text},
						glyph(step.state),
						el("span", {class: "hidden", text: step.text})
					);
		if (step.leg === null) return [stop];
		const leg = el("span", {class: `leg ${step.leg}`, text: duration(step.lasts)});
		leg.style.flexGrow = String(Math.sqrt(step.lasts + 1).toFixed(2));
		return [stop, leg];
	});
}

/** What is pending grows with the clock. */
export function tick() {
	for (const [id, item] of rows) {
		const one = known.transactions.get(id);
		if (one && !isFinal(one)) fill(item.firstChild, one);
	}
}

export function mark(id) {
	open = id;
	for (const [other, item] of rows) item.firstChild.setAttribute("aria-expanded", String(other === id));
	hold(id ?? undefined);
}

/** One row takes part in the order of Tab: the one that was last used, else the newest. */
function hold(id = used) {
	used = id;
	const buttons = [...$("list").querySelectorAll(".row")];
	const held = buttons.find(one => one.dataset.id === used) ?? buttons[0];
	for (const one of buttons) one.tabIndex = one === held ? 0 : -1;
	return held;
}

/** To the next or the previous row; gives its transaction. */
export function step(by) {
	const buttons = [...$("list").querySelectorAll(".row")];
	if (!buttons.length) return null;
	const at = buttons.indexOf(document.activeElement),
		last = buttons.findIndex(one => one.tabIndex === 0);
	const next = buttons[Math.min(buttons.length - 1, Math.max(0, at < 0 ? last : at + by))];
	hold(next.dataset.id);
	next.focus();
	next.scrollIntoView({block: "nearest"});
	return next.dataset.id;
}

export const focusRow = id => hold(id)?.focus();
