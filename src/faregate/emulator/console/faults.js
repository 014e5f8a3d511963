// Faults: the active ones, named modes, and a form to add one.

import {$, el, toast} from "./dom.js";
import {attempt, known} from "./feed.js";
import {choice, field, listed, options} from "./forms.js";
import {patch} from "./patch.js";

const OPERATIONS = "access complete transaction transactions payers resources contracts execution".split(" ");
const WHEN = ["when", ["after", "before"]];
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
	"doubled-header": [HEADER, ["value", ""]],
	"changed-body": [["fields", '{"status": "settling"}']],
	"stale-read": [["seconds", ""]],
	"refused-repeat": [["status", 409]]
};
const NUMBERS = ["seconds", "status", "retry_after", "times"];
const form = $("add-fault");

export function setUp() {
	$("clear-faults").onclick = () => attempt("DELETE", "faults", undefined, "All faults removed.");
	form.replaceChildren(
		choice("mode", "Apply a mode", [["", "none"]]),
		choice("kind", "Or add a fault", Object.keys(KINDS)),
		choice("operation", "Operation", [["", "any operation"], ...OPERATIONS]),
		choice("target", "Only calls about", []),
		field("times", "Times (empty: always)", 1, true),
		el("span", {id: "parameters"}),
		el("button", {class: "wide", type: "submit", text: "Add fault"})
	);
	form.elements.kind.onchange = ask;
	form.elements.mode.onchange = () => play(form.elements.mode.value);
	form.onreset = () => setTimeout(ask);
	form.onsubmit = event => {
		event.preventDefault();
		add(new FormData(form));
	};
	ask();
}

function ask() {
	const asked = KINDS[form.elements.kind.value];
	$("parameters").replaceChildren(
		...asked.map(([name, given]) =>
			Array.isArray(given)
				? choice(name, "Before or after the call takes effect", given)
				: field(name, name === "fields" ? "Fields, as JSON" : label(name), given, NUMBERS.includes(name))
		)
	);
}

const label = name => (name[0].toUpperCase() + name.slice(1)).replace("_", " ");

function add(data) {
	const fault = {times: null};
	try {
		for (const [name, value] of data) if (value) Object.assign(fault, read(name, value));
	} catch {
		toast('Give the fields as a JSON object, such as {"status": "settling"}.');
		return;
	}
	attempt("POST", "faults", fault, `Added ${fault.kind}.`);
}

/** One parameter of a fault. */
function read(name, value) {
	if (name === "mode") return {};
	if (name === "fields") return {fields: object(value)};
	if (name === "target") return {[kindOf(value)]: value};
	return {[name]: NUMBERS.includes(name) ? Number(value) : value};
}

function object(text) {
	const found = JSON.parse(text);
	if (Object.prototype.toString.call(found) !== "[object Object]") throw new TypeError(text);
	return found;
}

const kindOf = target => (target.startsWith("txn_") ? "transaction" : target.startsWith("0x") ? "payer" : "resource");

const play = mode => mode && attempt("POST", "faults", {mode}, `Mode ${mode} applied.`);

export function draw() {
	const {faults, mode, modes} = known.faults;
	patch(form.elements.mode, options([["", "none"], ...modes]));
	form.elements.mode.value = mode && mode !== "clean" ? mode : "";
	$("clear-faults").disabled = !faults.length;
	const rows = faults.map(({id, struck, fault}) => ({
		key: id,
		title: fault.kind,
		about: about(fault),
		faint: `applied ${struck}${fault.times === null ? "" : ` of ${fault.times}`} times`,
		remove: () => attempt("DELETE", `faults/${id}`, undefined, `Removed ${id}.`)
	}));
	listed("faults", rows, "No faults set.");
}

function about({kind, times, operation, seed, ...rest}) {
	if (rest.probability) rest.seed = seed;
	const told = Object.entries(rest).map(
		([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`
	);
	return [operation ?? "any operation", ...told].join(", ");
}
