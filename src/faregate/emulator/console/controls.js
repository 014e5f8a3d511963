// The header: the tenant, its clock and its state.

import {$, toast} from "./dom.js";
import {send, known, currentTime} from "./feed.js";
import {day, time} from "./format.js";
import {options} from "./forms.js";
import {patch} from "./patch.js";

/** `switchTenant(tenant, environment)` shows another tenant. */
export function setUp(switchTenant) {
	$("tenant").addEventListener("change", () => switchTenant($("tenant").value, known.environment));
	$("environment").addEventListener("change", () => switchTenant(known.tenant, $("environment").value));
	$("freeze").addEventListener("click", freezeOrRun);
	$("rate").addEventListener("change", () => send("POST", "clock", {run: Number($("rate").value)}));
	for (const one of document.querySelectorAll("[data-advance]")) {
		one.addEventListener("click", () => advance(Number(one.dataset.advance)));
	}
	$("snapshot").addEventListener("click", async () => {
		const taken = await send("POST", "snapshots", {});
		if (taken) toast(`Snapshot ${taken.name} taken.`);
	});
	$("restore").addEventListener("change", restore);
	$("reset").addEventListener("click", reset);
	// On a phone the controls would take a third of the screen.
	$("show-controls").addEventListener("click", () => {
		const open = document.body.classList.toggle("controls-open");
		$("show-controls").setAttribute("aria-expanded", String(open));
	});
	$("help").addEventListener("click", () => $("keys").showModal());
}

export const advance = seconds => send("POST", "clock", {advance: seconds});

export function freezeOrRun() {
	const frozen = known.clock?.mode === "frozen";
	return send("POST", "clock", frozen ? {run: Number($("rate").value)} : {freeze: null});
}

let confirmation;
/** Reset on the second press within 4 seconds, because everything is lost, snapshots too. */
async function reset() {
	clearTimeout(confirmation);
	if ($("reset").textContent === "Reset") {
		$("reset").textContent = "Really reset?";
		confirmation = setTimeout(() => ($("reset").textContent = "Reset"), 4000);
		return;
	}
	$("reset").textContent = "Reset";
	await send("POST", "reset", undefined, "Tenant reset.");
}

async function restore() {
	const name = $("restore").value;
	$("restore").value = "";
	if (name) await send("POST", `snapshots/${encodeURIComponent(name)}/restore`, undefined, `Snapshot ${name} restored.`);
}

export function draw(parts) {
	if (parts.tenants) {
		patch($("tenant"), options(known.tenants));
		$("tenant").value = known.tenant;
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
	const now = currentTime(),
		text = `${day(now)} ${time(now).slice(0, 10)}`;
	if ($("now").textContent !== text) $("now").textContent = text;
}
