// What the page knows of a world, kept up to date by server-sent events, and how it tells the emulator things.

import {toast} from "./dom.js";

const TRANSACTIONS = 200,
	CALLS = 500,
	RETRY = 1000,
	SILENCE = 25_000;

export const known = {world: "", environment: "test", transactions: new Map(), calls: new Map()};

const root = new URL("_emulator/", document.baseURI);
export const base = new URL(".", document.baseURI).href.replace(/\/$/, "");

let source, next, told, linked;

/** Follows a world; `heard(whole, parts)` is told which parts are new, `link(state)` how the connection is. */
export function follow(world, environment, heard, link) {
	[told, linked] = [heard, link];
	Object.assign(known, {world, environment});
	connect();
}

function connect() {
	source?.close();
	source = new EventSource(of("events"));
	source.addEventListener("whole", event => {
		known.transactions.clear();
		known.calls.clear();
		linked("live");
		take(event);
	});
	source.addEventListener("change", take);
	source.addEventListener("beat", alive);
	source.addEventListener("gone", gone);
	source.onerror = () => (source.readyState === EventSource.CLOSED ? lost() : away());
	alive();
}

/** A connection that was cut without a word, by a laptop that slept, is told by its silence. */
const alive = () => later(SILENCE, lost);

function later(wait, what) {
	clearTimeout(next);
	next = setTimeout(what, wait);
}

/** The time of the world is not known meanwhile. */
function away() {
	if (known.clock) known.clock = {...known.clock, now: new Date(present()).toISOString(), rate: 0};
	linked("reconnecting");
}

function gone() {
	clearTimeout(next);
	source.close();
	linked("gone");
}

/** Begins anew, unless the emulator is there and says that the world is not. */
async function lost() {
	const was = source;
	was.close();
	away();
	const answer = await fetch(of("clock"), {signal: AbortSignal.timeout(5 * RETRY)}).catch(() => null);
	if (was !== source) return;
	if (answer?.status === 404) gone();
	else if (answer?.ok) connect();
	else later(RETRY, lost);
}

addEventListener("online", lost);

function of(path) {
	const address = new URL(`worlds/${encodeURIComponent(known.world)}/${path}`, root);
	address.searchParams.set("environment", known.environment);
	return address;
}

function take(event) {
	alive();
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
	const given = body === undefined ? {} : {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
	try {
		const answer = await fetch(of(path), {method, ...given});
		const text = await answer.text(),
			found = text ? JSON.parse(text) : {};
		toast(answer.ok ? (said ?? "") : found.message);
		return answer.ok ? found : null;
	} catch (error) {
		toast(error.message);
		return null;
	}
}
