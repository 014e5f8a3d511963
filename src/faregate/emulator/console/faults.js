// Faults: the active ones, named modes, and a form to add one.

import {$, el, toast} from "./dom.js";
import {send, known} from "./feed.js";
import {selectField, textField, drawList, options} from "./forms.js";
import {patch} from "./patch.js";

const OPERATIONS = "access complete transaction transactions payers resources contracts execution".split(" ");
const WHEN = ["when", ["after", "before"]];
const SECONDS = ["seconds", 2],
	HEADER = ["header", "PAYMENT-RESPONSE"];
/** Kinds of faults with their parameters: a name, and its choices or an example. */
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
	"refused-repeat": [["status", 409]],
	"predictable-instructions": []
};
const NUMBERS = ["seconds", "status", "retry_after", "times"];
const form = $("add-fault");

export function setUp() {
	$("clear-faults").onclick = () => send("DELETE", "faults", undefined, "All faults removed.");
	form.replaceChildren(
		selectField("mode", "Apply a mode", [["", "none"]]),
		selectField("kind", "Or add a fault", Object.keys(KINDS)),
		selectField("operation", "Operation", [["", "any operation"], ...OPERATIONS]),
		selectField("target", "Only calls about", []),
		textField("times", "Times (empty: always)", 1, true),
		el("span", {id: "parameters"}),
		el("button", {class: "wide", type: "submit", text: "Add fault"})
	);
	form.elements.kind.onchange = showParameters;
	form.elements.mode.onchange = () => applyMode(form.elements.mode.value);
	form.onreset = () => setTimeout(showParameters);
	form.onsubmit = event => {
		event.preventDefault();
		add(new FormData(form));
	};
	showParameters();
}

function showParameters() {
	const parameters = KINDS[form.elements.kind.value];
	$("parameters").replaceChildren(
		...parameters.map(([name, given]) =>
			Array.isArray(given)
				? selectField(name, "Before or after the call takes effect", given)
				: textField(name, name === "fields" ? "Fields, as JSON" : label(name), given, NUMBERS.includes(name))
		)
	);
}

const label = name => (name[0].toUpperCase() + name.slice(1)).replace("_", " ");

function add(data) {
	const fault = {times: null};
	try {
		for (const [name, value] of data) if (value) Object.assign(fault, parseParameter(name, value));
	} catch {
		toast('Give the fields as a JSON object, such as {"status": "settling"}.');
		return;
	}
	send("POST", "faults", fault, `Added ${fault.kind}.`);
}

/** Parse one field of the form. */
function parseParameter(name, value) {
	if (name === "mode") return {};
	if (name === "fields") return {fields: parseObject(value)};
	if (name === "target") return {[getTargetKind(value)]: value};
	return {[name]: NUMBERS.includes(name) ? Number(value) : value};
}

function parseObject(text) {
	const found = JSON.parse(text);
	if (Object.prototype.toString.call(found) !== "[object Object]") throw new TypeError(text);
	return found;
}

const getTargetKind = target => (target.startsWith("txn_") ? "transaction" : target.startsWith("0x") ? "payer" : "resource");

const applyMode = mode => mode && send("POST", "faults", {mode}, `Mode ${mode} applied.`);

export function draw() {
	const {faults, mode, modes} = known.faults;
	patch(form.elements.mode, options([["", "none"], ...modes]));
	form.elements.mode.value = mode && mode !== "clean" ? mode : "";
	$("clear-faults").disabled = !faults.length;
	const rows = faults.map(({id, applied, fault}) => ({
		key: id,
		title: fault.kind,
		about: about(fault),
		faint: `applied ${applied}${fault.times === null ? "" : ` of ${fault.times}`} times`,
		remove: () => send("DELETE", `faults/${id}`, undefined, `Removed ${id}.`)
	}));
	drawList("faults", rows, "No faults set.");
}

function about({kind, times, operation, seed, ...rest}) {
	if (rest.probability) rest.seed = seed;
	const details = Object.entries(rest).map(
		([name, value]) => `${name} ${typeof value === "object" ? JSON.stringify(value) : value}`
	);
	return [operation ?? "any operation", ...details].join(", ");
}
