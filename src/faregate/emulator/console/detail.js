// The details of one transaction: its timeline, decoded headers, calls and actions.

import {copy, curlOf, curlOfCall} from "./copy.js";
import {$, el, glyph, span} from "./dom.js";
import {send, known, currentTime} from "./feed.js";
import {between, bytes, day, duration, price, rule, time} from "./format.js";
import {patch} from "./patch.js";
import {pytestOf} from "./pytest.js";
import {isFinal, moments, PENDING, reason} from "./timeline.js";

const expanded = new Set();
let close, changeRule;

/** `whenClosed()` closes the panel; `whenRuleChanged(id)` opens the rule form for a transaction. */
export function setUp(whenClosed, whenRuleChanged) {
	[close, changeRule] = [whenClosed, whenRuleChanged];
	$("detail").addEventListener(
		"toggle",
		event => {
			if (event.target.dataset.part) expanded[event.target.open ? "add" : "delete"](event.target.dataset.part);
		},
		true
	);
}

/** Collapse all sections: after a reset, call numbers mean other calls. */
export const collapseAll = () => expanded.clear();

export function draw(id) {
	const one = known.transactions.get(id);
	if (!one) return false;
	patch($("detail"), [
		bar(one.status, one.status, ` · ${one.resource} · ${price(one)}`),
		el("div", {class: "in", "data-key": id}, actions(one), steps(one), facts(one), ...headers(one), ...calls(one))
	]);
	return true;
}

/** Draw a call that belongs to no transaction. */
export function drawCall(number) {
	const call = known.calls.get(number);
	if (!call) return false;
	const state = call.status === 402 && !call.proof ? "asked" : call.status < 400 ? "succeeded" : "failed";
	patch($("detail"), [
		bar(state, call.status ?? "no response", ` · ${call.operation ?? call.path}`),
		el(
			"div",
			{class: "in", "data-key": number},
			callPart(call, true),
			section("PAYMENT-REQUIRED", call.asked),
			section("PAYMENT-SIGNATURE", call.proof)
		)
	]);
	return true;
}

function bar(state, word, text) {
	return el(
		"div",
		{class: "bar"},
		el("h2", {id: "detail-title"}, span(`is-${state}`, glyph(state), ` ${word}`), text),
		el("button", {"data-key": "close", "aria-keyshortcuts": "Escape", text: "Close", onclick: () => close()})
	);
}

function actions(one) {
	const button = (key, text, kind, onclick) => el("button", {"data-key": key, class: kind, text, onclick});
	return el(
		"div",
		{class: "actions"},
		PENDING.includes(one.status) ? button("settle", "Settle", "primary", () => act(one.id, "settle")) : null,
		isFinal(one) ? null : button("fail", "Fail", "danger", () => act(one.id, "fail")),
		button("curl", "Copy as curl", null, () => copyOf.c(one)),
		button("pytest", "Copy as pytest test", null, () => copyOf.p(one))
	);
}

export const act = (id, what) => send("POST", `transactions/${id}/${what}`);

export const copyOf = {
	c: one => copy(curlOf(one), "a curl command"),
	p: one => copy(pytestOf(one), "a pytest test")
};

function steps(one) {
	const all = moments(one);
	return el(
		"ol",
		{class: "steps"},
		all.map((step, i) =>
			el(
				"li",
				{},
				glyph(step.state),
				span(null, step.text, i ? el("small", {text: `  +${duration(between(all[i - 1].at, step.at))}`}) : null),
				el("time", {datetime: step.at, title: step.at, text: time(step.at)})
			)
		)
	);
}

function facts(one) {
	const ago = duration(currentTime() - Date.parse(one.created_at));
	return pairs({
		transaction: copyable(one.id),
		payer: copyable(one.payer, one.payer_name ? `${one.payer_name}, ` : ""),
		authorized: `${day(one.created_at)} ${time(one.created_at).slice(0, 8)} UTC, ${ago} ago`,
		url: one.url,
		description: one.description || null,
		settlement: isFinal(one) ? null : [one.rule ? rule(one.rule) : "by rule", " ", changeLink(one.id)],
		reads: one.reads || null,
		reported:
			one.completed?.values &&
			Object.entries(one.completed.values)
				.map(([name, value]) => `${name} = ${value}`)
				.join(", "),
		"failure code": one.completed?.failure_code,
		"failed because": one.completed?.failure_code ? null : reason(one),
		"seller's response": describeResponse(one.completed?.resource_execution),
		"transaction hash": one.transaction_hash && copyable(one.transaction_hash)
	});
}

/** What the seller told of its response: status, type, size and duration; null if nothing. */
function describeResponse(told) {
	const {response_status, response_content_type, response_size_bytes, duration_ms} = told ?? {};
	const parts = [
		response_status,
		response_content_type,
		response_size_bytes === undefined || response_size_bytes === null ? null : bytes(response_size_bytes),
		duration_ms === undefined || duration_ms === null ? null : duration(duration_ms)
	];
	return parts.filter(one => one !== null && one !== undefined).join(", ") || null;
}

/** An identifier in full, with a button that copies it. */
const copyable = (text, before = "") => [`${before}${text} `, link("copy", `Copy ${text}`, () => copy(text, text))];

const changeLink = id => link("change", "Change how this payment ends", () => changeRule(id));

const link = (text, label, onclick) => el("button", {class: "link-like", "aria-label": label, text, onclick});

function headers(one) {
	const calls = one.calls.map(number => known.calls.get(number)).filter(Boolean);
	const asked = known.calls.get(one.asked?.number)?.asked;
	const answered = calls.map(call => call.answered).find(Boolean);
	return [
		el("h3", {text: "Decoded headers"}),
		section("PAYMENT-REQUIRED", asked),
		section("PAYMENT-SIGNATURE", one.proof),
		section("PAYMENT-RESPONSE", answered),
		section("Receipt", one.receipt)
	];
}

function section(name, value) {
	if (!value) return null;
	return el(
		"details",
		{"data-part": name, "data-key": name, open: expanded.has(name)},
		el("summary", {}, el("b", {text: name})),
		pairs(flat(value))
	);
}

/** Flatten `{ a: { b: 1 } }` to `{ "a.b": 1 }`, and add readable dates to x402 timestamps. */
function flat(value, before = "") {
	return Object.entries(value).reduce((found, [name, inner]) => {
		if (inner !== null && typeof inner === "object") return {...found, ...flat(inner, `${before}${name}.`)};
		const valid = /^valid(After|Before)$/.test(name) && Number(inner) > 0 && Number(inner) < 8e12;
		return {
			...found,
			[before + name]: valid ? `${inner} (${new Date(inner * 1000).toISOString().slice(0, 19)}Z)` : inner
		};
	}, {});
}

function pairs(given) {
	const entries = Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== "");
	return el(
		"dl",
		{class: "pairs"},
		entries.flatMap(([name, value]) => [el("dt", {text: name}), el("dd", {}, Array.isArray(value) ? value : String(value))])
	);
}

function calls(one) {
	const numbers = one.asked ? [one.asked.number, ...one.calls] : one.calls;
	const found = numbers.map(number => known.calls.get(number)).filter(Boolean);
	const missing = numbers.length - found.length;
	return [
		el("h3", {text: missing ? `Calls (${missing} older ones are no longer kept)` : "Calls"}),
		...found.map(call => callPart(call))
	];
}

/** A call with its response, expandable. */
function callPart(call, open = expanded.has(`call ${call.number}`)) {
	return el(
		"details",
		{"data-part": `call ${call.number}`, "data-key": `call ${call.number}`, open},
		el(
			"summary",
			{},
			span("faint", `${time(call.at)} `),
			el("b", {text: call.operation ?? call.path}),
			` ${call.status ?? "no response"} `,
			...tags(call)
		),
		call.refusal ? el("p", {text: `${call.refusal.code}: ${call.refusal.message}`}) : null,
		pairs({
			call: `${call.method} ${call.path}`,
			body: call.body,
			delay: call.delay ? `${call.delay} s` : null
		}),
		el("button", {class: "small", text: "Copy as curl", onclick: () => copy(curlOfCall(call), "a curl command")})
	);
}

/** The fault that was applied to a call, and how its response was delivered. */
export function tags(call) {
	const ending = {silence: "no response", reset: "connection reset", cut: "cut off"}[call.ending];
	return [call.fault, ending, call.delay ? `+${duration(call.delay * 1000)}` : null]
		.filter(Boolean)
		.map(text => span("tag broken", text));
}
