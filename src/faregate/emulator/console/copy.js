// What can be copied: a transaction or a call as curl, the environment of an app.

import {toast} from "./dom.js";
import {base, known} from "./feed.js";

/** In single quotes, for any POSIX shell. */
const quoted = text => `'${text.replaceAll("'", "'\\''")}'`;

const bearer = () =>
	known.about?.key ? quoted(`Authorization: Bearer ${known.about.key}`) : '"Authorization: Bearer $FAREGATE_API_KEY"';

/** Reads the transaction. */
export const curlOf = one => `curl -sS ${quoted(`${base}/merchant/v1/transactions/${one.id}`)} -H ${bearer()}`;

/** The call again; a proof is not repeated, it is the payer's. */
export function curlOfCall(call) {
	const parts = ["curl -sS -i", quoted(base + call.path), "-H", bearer()];
	if (call.method !== "GET") parts.splice(1, 0, "-X", call.method);
	if (call.proof) parts.push("-H", '"PAYMENT-SIGNATURE: ${PROOF:?a new proof, from a payer}"');
	if (call.body) parts.push("-H", quoted("Content-Type: application/json"), "--data-raw", quoted(call.body));
	return parts.join(" ");
}

export const environment = () =>
	`export FAREGATE_BASE_URL=${base}\nexport FAREGATE_API_KEY=${known.about?.key ?? "..."}`;

export async function copy(text, what) {
	try {
		await navigator.clipboard.writeText(text);
		toast(`Copied ${what}.`);
	} catch (error) {
		toast(`Could not copy: ${error.message}`);
	}
}
