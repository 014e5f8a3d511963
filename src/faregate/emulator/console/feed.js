// What the page knows of a world, kept up to date by server-sent events, and how it tells the emulator things.

import {toast} from "./dom.js";

const TRANSACTIONS = 200,
	CALLS = 500;

export const known = {world: "", environment: "test", transactions: new Map(), calls: new Map()};

const root = new URL("_emulator/", document.baseURI);
export const base = new URL(".", document.baseURI).href.replace(/\/$/, "");

let source;

/** Follows a world; `told(whole, names)` says which parts are new, `linked(state)` how the connection is. */
export function follow(world, environment, told, linked) {
	source?.close();
	Object.assign(known, {world, environment});
	source = new EventSource(new URL(`worlds/${encodeURIComponent(world)}/events?environment=${environment}`, root));
	source.addEventListener("whole", event => {
		forget();
		linked("live");
		take(event, told);
	});
	source.addEventListener("change", event => take(event, told));
	source.addEventListener("gone", () => {
		source.close();
		linked("gone");
	});
	source.onerror = () => linked(source.readyState === EventSource.CLOSED ? "gone" : "reconnecting");
}

function forget() {
	known.transactions.clear();
	known.calls.clear();
}

function take(event, told) {
	const parts = JSON.parse(event.data);
	for (const one of parts.transactions ?? []) known.transactions.set(one.id, one);
	for (const one of parts.calls ?? []) known.calls.set(one.number, one);
	bound(known.transactions, TRANSACTIONS);
	bound(known.calls, CALLS);
	const {transactions, calls, whole, ...rest} = parts;
	Object.assign(known, rest);
	if (rest.clock) known.since = performance.now();
	told(Boolean(whole), parts);
}

function bound(map, size) {
	for (const key of map.keys()) {
		if (map.size <= size) return;
		map.delete(key);
	}
}

/** The present of the world, in milliseconds, reckoned from what its clock last said. */
export function present() {
	if (!known.clock) return Date.now();
	return Date.parse(known.clock.now) + (performance.now() - known.since) * known.clock.rate;
}

/** Tells the emulator something of this world; gives its answer, or null when it has said why not. */
export async function attempt(method, path, body, said) {
	const address = new URL(`worlds/${encodeURIComponent(known.world)}/${path}`, root);
	address.searchParams.set("environment", known.environment);
	const given = body === undefined ? {} : {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
	try {
		const answer = await fetch(address, {method, ...given});
		const text = await answer.text(),
			found = text ? JSON.parse(text) : {};
		toast(answer.ok ? (said ?? "") : found.message);
		return answer.ok ? found : null;
	} catch (error) {
		toast(error.message);
		return null;
	}
}
