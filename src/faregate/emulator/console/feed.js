// What the page knows of a tenant, kept up to date by server-sent events, and the requests that change it.

import {toast} from "./dom.js";

const TRANSACTIONS = 200,
	CALLS = 500,
	RETRY = 1000,
	SILENCE = 25_000;

export const known = {tenant: "", environment: "test", transactions: new Map(), calls: new Map()};

const root = new URL("_emulator/", document.baseURI);
export const base = new URL(".", document.baseURI).href.replace(/\/$/, "");

let source, next, onData, onState;

/** Follow a tenant: `whenData(whole, parts)` gets the changed parts, `whenState(state)` the connection state. */
export function follow(tenant, environment, whenData, whenState) {
	[onData, onState] = [whenData, whenState];
	Object.assign(known, {tenant, environment});
	connect();
}

function connect() {
	source?.close();
	source = new EventSource(buildUrl("events"));
	source.addEventListener("whole", event => {
		known.transactions.clear();
		known.calls.clear();
		onState("connected");
		receive(event);
	});
	source.addEventListener("change", receive);
	source.addEventListener("beat", restartTimer);
	source.addEventListener("gone", endTenant);
	source.onerror = () => (source.readyState === EventSource.CLOSED ? reconnect() : pauseClock());
	restartTimer();
}

/** Reconnect after a long silence: a laptop that slept gets no error for its dead connection. */
const restartTimer = () => schedule(SILENCE, reconnect);

function schedule(wait, what) {
	clearTimeout(next);
	next = setTimeout(what, wait);
}

/** Stop the displayed clock: without a connection the time in the tenant is unknown. */
function pauseClock() {
	if (known.clock) known.clock = {...known.clock, now: new Date(currentTime()).toISOString(), rate: 0};
	onState("reconnecting");
}

function endTenant() {
	clearTimeout(next);
	source.close();
	onState("gone");
}

/** Connect again, unless the emulator responds that the tenant no longer exists. */
async function reconnect() {
	const was = source;
	was.close();
	pauseClock();
	const answer = await fetch(buildUrl("clock"), {signal: AbortSignal.timeout(5 * RETRY)}).catch(() => null);
	if (was !== source) return;
	if (answer?.status === 404) endTenant();
	else if (answer?.ok) connect();
	else schedule(RETRY, reconnect);
}

addEventListener("online", reconnect);

function buildUrl(path) {
	const address = new URL(`tenants/${encodeURIComponent(known.tenant)}/${path}`, root);
	address.searchParams.set("environment", known.environment);
	return address;
}

function receive(event) {
	restartTimer();
	const parts = JSON.parse(event.data);
	for (const one of parts.transactions ?? []) known.transactions.set(one.id, one);
	for (const one of parts.calls ?? []) known.calls.set(one.number, one);
	trim(known.transactions, TRANSACTIONS);
	trim(known.calls, CALLS);
	const {transactions, calls, whole, ...rest} = parts;
	Object.assign(known, rest);
	if (rest.clock) known.since = performance.now();
	onData(Boolean(whole), parts);
}

function trim(map, size) {
	for (const key of map.keys()) {
		if (map.size <= size) return;
		map.delete(key);
	}
}

/** The time in the tenant, in milliseconds, computed from the last state of its clock. */
export function currentTime() {
	if (!known.clock) return Date.now();
	return Date.parse(known.clock.now) + (performance.now() - known.since) * known.clock.rate;
}

/** Send a control request for this tenant. Returns the response, or null after showing the error. */
export async function send(method, path, body, message) {
	const given = body === undefined ? {} : {headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)};
	try {
		const answer = await fetch(buildUrl(path), {method, ...given});
		const text = await answer.text(),
			found = text ? JSON.parse(text) : {};
		toast(answer.ok ? (message ?? "") : found.message);
		return answer.ok ? found : null;
	} catch (error) {
		toast(error.message);
		return null;
	}
}
