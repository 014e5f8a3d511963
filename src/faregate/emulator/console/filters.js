// Which transactions the list shows: by status, resource, payer and text. The URL keeps them, so that a link shows the same.

import {$} from "./dom.js";
import {known} from "./feed.js";
import {short} from "./format.js";
import {options} from "./forms.js";
import {patch} from "./patch.js";
import {PENDING} from "./timeline.js";

const FIELDS = {status: "filter", resource: "filter-resource", payer: "filter-payer", q: "search"};
const TEXTS = ["id", "payer", "payer_name", "transaction_hash", "resource", "url"];

/** `whenChanged()` is called after each change by the reader. */
export function setUp(whenChanged) {
	const changed = () => {
		const query = new URLSearchParams(Object.entries(values()).filter(([, value]) => value)).toString();
		history.replaceState(null, "", location.hash.split("?")[0] + (query ? `?${query}` : ""));
		whenChanged();
	};
	for (const id of Object.values(FIELDS)) $(id).addEventListener("input", changed);
	$("clear-filters").addEventListener("click", () => {
		read("");
		changed();
		$("search").focus();
	});
}

const values = () => Object.fromEntries(Object.entries(FIELDS).map(([name, id]) => [name, $(id).value.trim()]));

/** Take the filters from the query of the URL's fragment. */
export function read(query) {
	const given = new URLSearchParams(query);
	for (const [name, id] of Object.entries(FIELDS)) choose($(id), given.get(name) ?? "");
	$("filter-part").open = isActive();
}

/** Choose a value, also one that nobody has yet: its transactions may come. */
function choose(field, value) {
	if (field.options && ![...field.options].some(one => one.value === value)) field.append(...options([value]));
	field.value = value;
}

export const isActive = () => Object.values(values()).some(Boolean);

export function matches(one) {
	const {status, resource, payer, q} = values();
	return (
		(!status || one.status === status || (status === "pending" && PENDING.includes(one.status))) &&
		(!resource || one.resource === resource) &&
		(!payer || one.payer === payer) &&
		(!q || TEXTS.some(name => one[name]?.toLowerCase().includes(q.toLowerCase())))
	);
}

/** Offer the resources that are sold, and the payers of the transactions on this page. */
export function draw() {
	const resources = (known.resources ?? []).map(one => one.key),
		payers = new Map([...known.transactions.values()].map(one => [one.payer, one.payer_name ?? short(one.payer)]));
	offer($("filter-resource"), "all resources", resources);
	offer($("filter-payer"), "all payers", [...payers].sort(([, one], [, other]) => one.localeCompare(other)));
}

function offer(select, everything, given) {
	const chosen = select.value,
		isMissing = chosen && !given.some(one => chosen === (Array.isArray(one) ? one[0] : one));
	patch(select, options([["", everything], ...given, ...(isMissing ? [chosen] : [])]));
	select.value = chosen;
}
