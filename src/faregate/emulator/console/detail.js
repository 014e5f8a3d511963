// One transaction: its story, its decoded headers, its calls, and what can be done with it.

import {copy, curlOf, curlOfCall} from "./copy.js";
import {$, el, glyph, span} from "./dom.js";
import {attempt, known, present} from "./feed.js";
import {amount, between, day, duration, rule, time} from "./format.js";
import {patch} from "./patch.js";
import {pytestOf} from "./pytest.js";
import {isFinal, moments, PENDING} from "./story.js";

const unfolded = new Set();
let shut, arrange;

/** `closed()` closes it; `arranged(id)` is asked how a payment is to end. */
export function setUp(closed, arranged) {
	[shut, arrange] = [closed, arranged];
	$("detail").addEventListener(
		"toggle",
		event => {
			if (event.target.dataset.part) unfolded[event.target.open ? "add" : "delete"](event.target.dataset.part);
		},
		true
	);
}

/** What was unfolded was of other calls. */
export const forget = () => unfolded.clear();

export function draw(id) {
	const one = known.transactions.get(id);
	if (!one) return false;
	patch($("detail"), [
		bar(one.status, one.status, ` · ${one.resource} · ${amount(one.amount)} ${one.asset}`),
		el("div", {class: "in", "data-key": id}, actions(one), steps(one), facts(one), ...headers(one), ...calls(one))
	]);
	return true;
}

/** A call that led to no transaction. */
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
			part("PAYMENT-REQUIRED", call.asked),
			part("PAYMENT-SIGNATURE", call.proof)
		)
	]);
	return true;
}

function bar(state, word, text) {
	return el(
		"div",
		{class: "bar"},
		el("h2", {id: "detail-title"}, span(`is-${state}`, glyph(state), ` ${word}`), text),
		el("button", {"data-key": "close", "aria-keyshortcuts": "Escape", text: "Close", onclick: () => shut()})
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

export const act = (id, what) => attempt("POST", `transactions/${id}/${what}`);

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
	const ago = duration(present() - Date.parse(one.created_at));
	return pairs({
		transaction: copied(one.id),
		payer: copied(one.payer, one.payer_name ? `${one.payer_name}, ` : ""),
		authorized: `${day(one.created_at)} ${time(one.created_at).slice(0, 8)} UTC, ${ago} ago`,
		url: one.url,
		description: one.description || null,
		settlement: isFinal(one) ? null : [one.rule ? rule(one.rule) : "by rule", " ", change(one.id)],
		reads: one.reads || null,
		reported:
			one.completed?.values &&
			Object.entries(one.completed.values)
				.map(([name, value]) => `${name} = ${value}`)
				.join(", "),
		"failure code": one.completed?.failure_code,
		"transaction hash": one.transaction_hash && copied(one.transaction_hash)
	});
}

/** The whole of an identifier, with a button that copies it. */
const copied = (text, before = "") => [`${before}${text} `, link("copy", `Copy ${text}`, () => copy(text, text))];

const change = id => link("change", "Change how this payment ends", () => arrange(id));

const link = (text, label, onclick) => el("button", {class: "link-like", "aria-label": label, text, onclick});

function headers(one) {
	const calls = one.calls.map(number => known.calls.get(number)).filter(Boolean);
	const asked = known.calls.get(one.asked?.number)?.asked;
	const answered = calls.map(call => call.answered).find(Boolean);
	return [
		el("h3", {text: "Decoded headers"}),
		part("PAYMENT-REQUIRED", asked),
		part("PAYMENT-SIGNATURE", one.proof),
		part("PAYMENT-RESPONSE", answered),
		part("Receipt", one.receipt)
	];
}

function part(name, value) {
	if (!value) return null;
	return el(
		"details",
		{"data-part": name, "data-key": name, open: unfolded.has(name)},
		el("summary", {}, el("b", {text: name})),
		pairs(flat(value))
	);
}

/** `{ a: { b: 1 } }` as `{ "a.b": 1 }`; moments of x402 are told in words as well. */
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
	const told = Object.entries(given).filter(([, value]) => value !== null && value !== undefined && value !== "");
	return el(
		"dl",
		{class: "pairs"},
		told.flatMap(([name, value]) => [el("dt", {text: name}), el("dd", {}, Array.isArray(value) ? value : String(value))])
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

/** A call with its answer, unfolded on demand. */
function callPart(call, open = unfolded.has(`call ${call.number}`)) {
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

/** The fault that struck, and what became of the answer. */
export function tags(call) {
	const ending = {silence: "no response", reset: "connection reset", cut: "cut off"}[call.ending];
	return [call.fault, ending, call.delay ? `+${duration(call.delay * 1000)}` : null]
		.filter(Boolean)
		.map(text => span("tag broken", text));
}
