// What goes wrong on purpose: the faults there are, named modes, and a form for one more.

import {$, el, redraw} from "./dom.js";
import {attempt, known} from "./feed.js";

const OPERATIONS = [
	"access",
	"complete",
	"transaction",
	"transactions",
	"payers",
	"resources",
	"contracts",
	"execution"
];
const WHEN = ["when", ["before", "after"]];
const SECONDS = ["seconds", 2],
	HEADER = ["header", "PAYMENT-RESPONSE"];
/** Kinds with what they ask for: a name, and a choice or an example. */
const KINDS = {
	latency: [SECONDS],
	silence: [WHEN],
	reset: [WHEN],
	cut: [],
	status: [["status", 503], WHEN, ["retry_after", ""]],
	"second-402": [WHEN],
	garbage: [],
	"missing-header": [HEADER],
	"doubled-header": [HEADER],
	"stale-read": [["seconds", ""]],
	"refused-repeat": [["status", 409]]
};
const NUMBERS = ["seconds", "status", "retry_after", "times"];

export function setUp() {
	$("clear-faults").addEventListener("click", () => attempt("DELETE", "faults", undefined, "No faults any more."));
	$("add-fault").replaceChildren(
		choice("mode", "Play a mode", ["", ...(known.faults?.modes ?? [])]),
		choice("kind", "or add a fault", Object.keys(KINDS)),
		choice("operation", "to", ["", ...OPERATIONS], "any operation"),
		field("times", "times (empty: always)", 1),
		el("span", {id: "parameters", class: "wide form", "data-bare": ""}),
		el("button", {class: "wide", type: "submit", text: "Add fault"})
	);
	const form = $("add-fault");
	form.elements.kind.addEventListener("change", ask);
	form.elements.mode.addEventListener("change", () => {
		play(form.elements.mode.value);
	});
	form.addEventListener("submit", event => {
		event.preventDefault();
		add(new FormData(form));
	});
	ask();
}

function ask() {
	const asked = KINDS[$("add-fault").elements.kind.value];
	$("parameters").hidden = !asked.length;
	$("parameters").replaceChildren(
		...asked.map(([name, given]) =>
			Array.isArray(given)
				? choice(name, `${name} it acts`, given, null, "after")
				: field(name, name.replace("_", " "), given)
		)
	);
}

const choice = (name, text, options, empty = "choose", chosen = null) =>
	el(
		"label",
		{},
		text,
		el(
			"select",
			{name},
			options.map(one => el("option", {value: one, selected: one === chosen, text: one || empty}))
		)
	);

const field = (name, text, value) =>
	el("label", {}, text, el("input", {name, value, inputmode: NUMBERS.includes(name) ? "decimal" : null}));

function add(data) {
	const fault = {kind: data.get("kind"), times: null};
	for (const [name, value] of data) {
		if (name !== "mode" && value !== "") fault[name] = NUMBERS.includes(name) ? Number(value) : value;
	}
	attempt("POST", "faults", fault, `Added ${fault.kind}.`);
}

const play = mode => mode && attempt("POST", "faults", {mode}, `Plays ${mode}.`);

export function draw() {
	const {faults, mode, modes} = known.faults,
		select = $("add-fault").elements.mode;
	if (select.options.length < 2) select.append(...modes.map(one => el("option", {value: one, text: one})));
	select.value = mode && mode !== "clean" ? mode : "";
	$("clear-faults").disabled = !faults.length;
	const rows = faults.map(({id, struck, fault}) =>
		el(
			"li",
			{},
			el(
				"span",
				{},
				el("b", {text: fault.kind}),
				` ${about(fault)}`,
				el("span", {
					class: "faint",
					text: ` struck ${struck}${fault.times === null ? "" : ` of ${fault.times}`}`
				})
			),
			el("button", {
				class: "small",
				"data-key": id,
				"aria-label": `Remove ${id}`,
				text: "Remove",
				onclick: () => attempt("DELETE", `faults/${id}`, undefined, `Removed ${id}.`)
			})
		)
	);
	redraw($("faults"), rows.length ? rows : [el("li", {class: "faint", text: "Nothing goes wrong on purpose."})]);
}

function about(fault) {
	const {kind, times, operation, ...rest} = fault;
	return [
		operation ?? "any operation",
		...Object.entries(rest).map(
			([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`
		)
	].join(", ");
}
