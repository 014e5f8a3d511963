// The header: which world, its clock, its state.

import {$, toast} from "./dom.js";
import {attempt, known, present} from "./feed.js";
import {day, time} from "./format.js";
import {options} from "./forms.js";
import {patch} from "./patch.js";

/** `go(world, environment)` shows another. */
export function setUp(go) {
	$("world").addEventListener("change", () => go($("world").value, known.environment));
	$("environment").addEventListener("change", () => go(known.world, $("environment").value));
	$("freeze").addEventListener("click", freezeOrRun);
	$("rate").addEventListener("change", () => attempt("POST", "clock", {run: Number($("rate").value)}));
	for (const one of document.querySelectorAll("[data-advance]")) {
		one.addEventListener("click", () => advance(Number(one.dataset.advance)));
	}
	$("snapshot").addEventListener("click", async () => {
		const taken = await attempt("POST", "snapshots", {});
		if (taken) toast(`Snapshot ${taken.name} taken.`);
	});
	$("restore").addEventListener("change", restore);
	$("reset").addEventListener("click", reset);
	$("help").addEventListener("click", () => $("keys").showModal());
}

export const advance = seconds => attempt("POST", "clock", {advance: seconds});

export function freezeOrRun() {
	const frozen = known.clock?.mode === "frozen";
	return attempt("POST", "clock", frozen ? {run: Number($("rate").value)} : {freeze: null});
}

let sure;
/** All of a world goes, snapshots too: so it is asked for twice within some seconds. */
async function reset() {
	clearTimeout(sure);
	if ($("reset").textContent === "Reset") {
		$("reset").textContent = "Really reset?";
		sure = setTimeout(() => ($("reset").textContent = "Reset"), 4000);
		return;
	}
	$("reset").textContent = "Reset";
	await attempt("POST", "reset", undefined, "World reset.");
}

async function restore() {
	const name = $("restore").value;
	$("restore").value = "";
	if (name) await attempt("POST", `snapshots/${encodeURIComponent(name)}/restore`, undefined, `Snapshot ${name} restored.`);
}

export function draw(parts) {
	if (parts.worlds) {
		patch($("world"), options(known.worlds));
		$("world").value = known.world;
	}
	if (parts.snapshots) {
		patch($("restore"), options([["", "Restore…"], ...[...known.snapshots].reverse()]));
		$("restore").disabled = !known.snapshots.length;
	}
	if (parts.about) {
		$("environments").hidden = !known.about.live;
		$("environment").value = known.environment;
	}
	if (parts.clock) {
		const {mode, rate} = known.clock;
		$("mode").textContent = {frozen: "❚❚ frozen", real: "▶ running", scaled: `▶▶ ${rate}×`}[mode];
		$("freeze").textContent = mode === "frozen" ? "Run" : "Freeze";
		if ([...$("rate").options].some(one => one.value === String(rate))) $("rate").value = String(rate);
	}
}

export function tick() {
	const now = present(),
		text = `${day(now)} ${time(now).slice(0, 10)}`;
	if ($("now").textContent !== text) $("now").textContent = text;
}
