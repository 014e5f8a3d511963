// A transaction as a story: the moments it had, in order, and what lay between them.

import {between} from "./format.js";

export const PENDING = ["settling", "reconciling"];
const FINAL = ["succeeded", "failed"];
const WORDS = {
	asked: "402, payment required",
	authorized: "authorized",
	complete: "complete",
	settling: "settling",
	reconciling: "reconciling",
	succeeded: "settled",
	failed: "failed"
};

export const isFinal = one => FINAL.includes(one.status);

/** `[{ state, at, text }]`, in order. */
export function moments(one) {
	const found = one.asked ? [{state: "asked", at: one.asked.at}] : [];
	for (const [at, state] of one.history) found.push({state, at});
	const completed = one.submitted_at ?? (one.completed ? one.history.at(-1)[0] : null);
	if (completed) {
		const place = found.findIndex(step => step.state === "authorized") + 1;
		found.splice(place, 0, {state: "complete", at: completed});
	}
	for (const step of found) {
		step.text = WORDS[step.state];
		if (step.state === "complete") step.text += `, work ${one.completed?.outcome ?? "succeeded"}`;
	}
	return found;
}

/** The same for a row. A payment that is pending is a leg; the stop at its end is what it is now. */
export function stops(one, now) {
	const steps = moments(one).filter(step => !PENDING.includes(step.state));
	const waited = one.history
		.map(([, state]) => state)
		.filter(state => PENDING.includes(state))
		.at(-1);
	const found = steps.map((step, i) => {
		const leg = {asked: "pay", authorized: "work", complete: waited ?? one.status}[step.state];
		return {
			...step,
			leg,
			lasts: steps[i + 1] ? between(step.at, steps[i + 1].at) : Math.max(0, now - Date.parse(step.at))
		};
	});
	return isFinal(one)
		? [...found.slice(0, -1), {...found.at(-1), leg: null}]
		: [...found, {state: one.status, text: `still ${one.status}`, leg: null}];
}

/** From the first moment to the last, or to now. */
export function total(one, now) {
	const first = Date.parse(one.asked?.at ?? one.created_at);
	return (isFinal(one) ? Date.parse(one.history.at(-1)[0]) : now) - first;
}
