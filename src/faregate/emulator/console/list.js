// The list of transactions: a row each, newest first, its story as a track of stops and legs.

import {$, el, glyph, span} from "./dom.js";
import {known, present} from "./feed.js";
import {amount, duration, payerName, when} from "./format.js";
import {patch} from "./patch.js";
import {steady} from "./steady.js";
import {isFinal, PENDING, stops, total} from "./story.js";

const rows = new Map(),
	drawn = steady($("list"));
let open = null,
	used = null,
	choose = () => {};

export function setUp(chosen) {
	choose = chosen;
	$("filter").onchange = () => arrange(true);
}

/** Draws what changed; everything if `whole`. A row that is pressed waits until it was clicked. */
export function draw(whole, changed = []) {
	const pressed = [...(whole ? known.transactions.values() : changed)].filter(one => !fill(one));
	drawn(() => {
		pressed.forEach(fill);
		arrange(whole);
	});
}

function arrange(quiet) {
	const shown = [...known.transactions.values()].filter(fits).reverse(),
		all = Object.values(known.counts ?? {}).reduce((sum, n) => sum + n, 0);
	for (const id of rows.keys()) if (!known.transactions.has(id)) rows.delete(id);
	patch(
		$("list"),
		shown.map(one => rows.get(one.id) ?? row(one, quiet))
	);
	$("nothing").hidden = all > 0;
	$("shown").textContent = all ? `${shown.length} of ${all.toLocaleString("en")}` : "";
	hold();
}

function fits(one) {
	const filter = $("filter").value;
	return !filter || one.status === filter || (filter === "pending" && PENDING.includes(one.status));
}

function row(one, quiet) {
	const button = el("button", {
		class: quiet ? "row" : "row fresh",
		tabindex: -1,
		"data-id": one.id,
		"aria-expanded": String(one.id === open),
		"aria-controls": "detail",
		onclick: () => choose(one.id)
	});
	rows.set(one.id, el("li", {"data-key": one.id}, button));
	fill(one);
	return rows.get(one.id);
}

/** False if it must wait. */
function fill(one) {
	const button = rows.get(one.id)?.firstChild;
	if (!button) return true;
	if (button.matches(":active")) return false;
	const now = present(),
		begun = el("time", {class: "faint", datetime: one.created_at, text: when(one.created_at, now)});
	patch(button, [
		span("state", span(`status is-${one.status}`, glyph(one.status), one.status), begun),
		span("what", span(null, one.resource), span("faint", payerName(one), struck(one))),
		span("track", track(one, now)),
		span("sum-of", span(null, `${amount(one.amount)} ${one.asset}`), span("faint", duration(total(one, now))))
	]);
	return true;
}

/** Why the work failed, and the faults that struck its calls. */
function struck(one) {
	const names = new Set([one.completed?.failure_code, ...one.faults].filter(Boolean));
	return [...names].map(name => span("tag broken", name));
}

/** Each leg is as long as the root of its time: short ones can still be read. */
function track(one, now) {
	return stops(one, now).flatMap(step => {
		const stop =
			step.state === "asked" ? span("stop code is-asked", "402") : span("stop", glyph(step.state), span("hidden", step.text));
		stop.title = step.text;
		if (step.leg === null) return [stop];
		const leg = span(`leg ${step.leg}`, duration(step.lasts));
		leg.style.flexGrow = String(Math.sqrt(step.lasts + 1).toFixed(2));
		return [stop, leg];
	});
}

/** What is pending grows with the clock. */
export function tick() {
	for (const one of known.transactions.values()) if (!isFinal(one)) fill(one);
}

export function mark(id) {
	open = id;
	for (const [other, item] of rows) item.firstChild.setAttribute("aria-expanded", String(other === id));
	hold(id ?? undefined);
}

const buttons = () => [...$("list").querySelectorAll(".row")];

/** One row takes part in the order of Tab: the one that was last used, else the newest. */
function hold(id = used) {
	used = id;
	const all = buttons(),
		held = all.find(one => one.dataset.id === used) ?? all[0];
	for (const one of all) one.tabIndex = one === held ? 0 : -1;
	return held;
}

/** To the next or the previous row; gives its transaction. */
export function step(by) {
	const all = buttons();
	if (!all.length) return null;
	const at = all.indexOf(document.activeElement),
		last = all.findIndex(one => one.tabIndex === 0);
	const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? last : at + by))];
	hold(next.dataset.id);
	next.focus();
	next.scrollIntoView({block: "nearest"});
	return next.dataset.id;
}

export const focusRow = id => hold(id)?.focus();
