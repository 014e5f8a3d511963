// The list of transactions, newest first; each row shows its timeline as stops connected by legs.

import {$, el, glyph, span} from "./dom.js";
import {known, currentTime} from "./feed.js";
import {isActive, matches} from "./filters.js";
import {duration, payerName, price, when} from "./format.js";
import {patch} from "./patch.js";
import {steady} from "./steady.js";
import {isFinal, reason, stops, totalDuration} from "./timeline.js";

const rows = new Map(),
	drawSteadily = steady($("list"));
let open = null,
	lastUsed = null,
	onChoose = () => {};

export function setUp(whenChosen) {
	onChoose = whenChosen;
}

/** Draw what changed, or everything if `whole`. A pressed row is redrawn only after its click. */
export function draw(whole, changed = []) {
	const pressed = [...(whole ? known.transactions.values() : changed)].filter(one => !fill(one));
	drawSteadily(() => {
		pressed.forEach(fill);
		layOut(whole);
	});
}

/** Show what the filters now let through. */
export const relayout = () => layOut(true);

function layOut(quiet) {
	const shown = [...known.transactions.values()].filter(matches).reverse(),
		all = Object.values(known.counts ?? {}).reduce((sum, n) => sum + n, 0);
	for (const id of rows.keys()) if (!known.transactions.has(id)) rows.delete(id);
	patch(
		$("list"),
		shown.map(one => rows.get(one.id) ?? row(one, quiet))
	);
	$("nothing").hidden = all > 0;
	$("no-match").hidden = !all || shown.length > 0;
	$("clear-filters").hidden = !isActive();
	$("shown").textContent = all ? `${shown.length} of ${all.toLocaleString("en")}` : "";
	keepTabStop();
}

function row(one, quiet) {
	const button = el("button", {
		class: quiet ? "row" : "row fresh",
		tabindex: -1,
		"data-id": one.id,
		"aria-expanded": String(one.id === open),
		"aria-controls": "detail",
		onclick: () => onChoose(one.id)
	});
	rows.set(one.id, el("li", {"data-key": one.id}, button));
	fill(one);
	return rows.get(one.id);
}

/** Redraw a row. Returns false if it is pressed and must wait. */
function fill(one) {
	const button = rows.get(one.id)?.firstChild;
	if (!button) return true;
	if (button.matches(":active")) return false;
	const now = currentTime(),
		begun = el("time", {class: "faint", datetime: one.created_at, text: when(one.created_at, now)});
	patch(button, [
		span("state", span(`status is-${one.status}`, glyph(one.status), one.status), begun),
		span("what", span(null, one.resource), span("faint", payerName(one), faultTags(one))),
		span("track", track(one, now)),
		span("sum-of", span(null, price(one)), span("faint", duration(totalDuration(one, now))))
	]);
	return true;
}

/** Why it failed, and the faults applied to its calls. */
function faultTags(one) {
	const names = new Set([reason(one), ...one.faults].filter(Boolean));
	return [...names].map(name => span("tag broken", name));
}

/** A leg is as long as the square root of its duration, so that short ones stay readable. */
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

/** Redraw unfinished transactions, whose last leg grows with the clock. */
export function tick() {
	for (const one of known.transactions.values()) if (!isFinal(one)) fill(one);
}

export function markOpen(id) {
	open = id;
	for (const [other, item] of rows) item.firstChild.setAttribute("aria-expanded", String(other === id));
	keepTabStop(id ?? undefined);
}

const buttons = () => [...$("list").querySelectorAll(".row")];

/** Make one row reachable by Tab: the last one used, else the newest. */
function keepTabStop(id = lastUsed) {
	lastUsed = id;
	const all = buttons(),
		tabStop = all.find(one => one.dataset.id === lastUsed) ?? all[0];
	for (const one of all) one.tabIndex = one === tabStop ? 0 : -1;
	return tabStop;
}

/** Focus the next or the previous row and return its transaction id. */
export function step(by) {
	const all = buttons();
	if (!all.length) return null;
	const at = all.indexOf(document.activeElement),
		last = all.findIndex(one => one.tabIndex === 0);
	const next = all[Math.min(all.length - 1, Math.max(0, at < 0 ? last : at + by))];
	keepTabStop(next.dataset.id);
	next.focus();
	next.scrollIntoView({block: "nearest"});
	return next.dataset.id;
}

export const focusRow = id => keepTabStop(id)?.focus();
