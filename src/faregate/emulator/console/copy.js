// What can be copied: a transaction or a call as a curl command, and the environment variables for an app.

import {toast} from "./dom.js";
import {base, known} from "./feed.js";

/** Quote for any POSIX shell. */
const quote = text => `'${text.replaceAll("'", "'\\''")}'`;

const buildAuthorization = () =>
	known.about?.key ? quote(`Authorization: Bearer ${known.about.key}`) : '"Authorization: Bearer $FAREGATE_API_KEY"';

/** A command that reads the transaction. */
export const curlOf = one => `curl -sS ${quote(`${base}/merchant/v1/transactions/${one.id}`)} -H ${buildAuthorization()}`;

/** A command that repeats the call, without its proof, which belongs to the payer. */
export function curlOfCall(call) {
	const parts = ["curl -sS -i", quote(base + call.path), "-H", buildAuthorization()];
	if (call.method !== "GET") parts.splice(1, 0, "-X", call.method);
	if (call.proof) parts.push("-H", '"PAYMENT-SIGNATURE: ${PROOF:?a new proof, from a payer}"');
	if (call.body) parts.push("-H", quote("Content-Type: application/json"), "--data-raw", quote(call.body));
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
