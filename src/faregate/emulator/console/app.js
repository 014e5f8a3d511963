// The entry point: connects the parts, and handles the keyboard.

import * as controls from "./controls.js";
import {copy, environment} from "./copy.js";
import * as detail from "./detail.js";
import {$, toast} from "./dom.js";
import * as faults from "./faults.js";
import * as filters from "./filters.js";
import {follow, known} from "./feed.js";
import * as list from "./list.js";
import * as panels from "./panels.js";
import * as plot from "./plot.js";
import * as rules from "./rules.js";
import * as sold from "./sold.js";

const narrow = matchMedia("(max-width: 1000px)");
/** What the detail panel shows: a transaction's id or a call's number. */
let open = null;

/** Open the tenant in the URL: `#name`, `#name/live`, or the main one; `?` and filters may follow. */
function openFromHash() {
	const [place, query] = location.hash.slice(1).split("?"),
		[tenant, data] = place.split("/");
	filters.read(query ?? "");
	switchTenant(tenant || "main", data === "live" ? "live" : "test");
}

function switchTenant(tenant, data) {
	if (tenant === known.tenant && data === known.environment) return;
	close();
	for (const form of document.forms) {
		form.reset();
		form.closest("details")?.removeAttribute("open");
	}
	const place = data === "test" ? tenant : `${tenant}/${data}`;
	// Filters belong to the tenant that they were chosen for.
	if (location.hash.slice(1).split("?")[0] !== place) location.hash = place;
	document.title = `${tenant} · faregate emulator`;
	showConnection("connecting");
	follow(tenant, data, update, showConnection);
}

function update(whole, parts) {
	if (whole && !known.transactions.has(open)) {
		close();
		detail.collapseAll();
	}
	controls.draw(parts);
	if (parts.counts || parts.money) panels.drawTotals();
	if (parts.money) plot.draw();
	if (parts.payers) panels.drawPayers(whole);
	if (parts.faults) faults.draw();
	if (parts.rules || parts.payers) rules.draw(open);
	if (parts.rules || parts.resources) sold.draw();
	if (parts.resources || parts.transactions || whole) filters.draw();
	if (parts.calls || whole) panels.calls(chooseCall);
	if (parts.about) $("env").textContent = environment();
	if (parts.transactions || parts.counts || whole) list.draw(whole, parts.transactions);
	if (parts.transactions || parts.calls) refreshDetail();
}

function showConnection(state) {
	$("link").textContent = state;
	$("link").className = `link ${state}`;
	if (state === "gone" && known.tenant !== "main") {
		toast(`Tenant ${known.tenant} was deleted.`);
		switchTenant("main", "test");
	}
}

function toggle(id) {
	if (open === id && !narrow.matches) return close();
	return show(id);
}

function chooseCall(call, ofKnown) {
	show(ofKnown ? call.transaction : call.number);
}

function show(id) {
	if (typeof id === "number" ? !detail.drawCall(id) : !detail.draw(id)) return;
	open = id;
	$("detail").hidden = false;
	document.body.classList.add("opened");
	$("detail").scrollTop = 0;
	plot.draw();
	list.markOpen(id);
	rules.draw(id);
	if (narrow.matches) $("detail").querySelector('[data-key="close"]').focus();
}

/** Redraw the detail panel. It stays open even if the page no longer has what it shows. */
function refreshDetail() {
	if (typeof open === "number") detail.drawCall(open);
	else if (open) detail.draw(open);
}

/** Open the rule form for a transaction. Close the panel last, because closing it moves the focus. */
function changeRule(id) {
	rules.focusForm(id);
	if (narrow.matches) close();
}

function close() {
	if (open === null) return;
	const was = open,
		inside = $("detail").contains(document.activeElement);
	open = null;
	$("detail").hidden = true;
	document.body.classList.remove("opened");
	list.markOpen(null);
	rules.draw(null);
	if (known.money) plot.draw();
	if (inside && typeof was === "string") list.focusRow(was);
}

const getOpen = () => known.transactions.get(open);
const act = what => getOpen() && detail.act(open, what);
const move = by => {
	const id = list.step(by);
	if (open !== null && id && !narrow.matches) show(id);
};

const KEYS = {
	j: () => move(1),
	ArrowDown: () => move(1),
	k: () => move(-1),
	ArrowUp: () => move(-1),
	Escape: close,
	s: () => act("settle"),
	f: () => act("fail"),
	c: () => getOpen() && detail.copyOf.c(getOpen()),
	p: () => getOpen() && detail.copyOf.p(getOpen()),
	a: () => controls.advance(1),
	" ": controls.freezeOrRun,
	"/": () => {
		$("filter-part").open = true;
		$("search").focus();
	},
	"?": () => $("keys").showModal()
};

document.addEventListener("keydown", event => {
	const {target, key} = event,
		inList = target.closest?.("#list");
	if (event.ctrlKey || event.metaKey || event.altKey || $("keys").open || target.closest?.("input, select, textarea"))
		return;
	if (key === " " && target !== document.body) return;
	if (key.startsWith("Arrow") && !inList && target !== document.body) return;
	if (!KEYS[key]) return;
	event.preventDefault();
	KEYS[key]();
});

list.setUp(toggle);
filters.setUp(list.relayout);
sold.setUp();
detail.setUp(close, changeRule);
faults.setUp();
rules.setUp();
controls.setUp(switchTenant);
$("copy-env").addEventListener("click", () => copy(environment(), "the environment variables"));
addEventListener("resize", () => known.money && plot.draw());
setInterval(controls.tick, 100);
setInterval(() => known.clock?.rate && [list.tick(), refreshDetail()], 1000);
addEventListener("hashchange", openFromHash);
openFromHash();
