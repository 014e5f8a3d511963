// A transaction's timeline: its events in order, and the time between them.

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

/** Why a payment failed, in a few words; null if it did not. */
export function reason(one) {
	if (one.status !== "failed") return null;
	if (one.completed?.failure_code) return one.completed.failure_code;
	if (!one.completed) return "expired before complete";
	const ended = Date.parse(one.history.at(-1)[0]) / 1000;
	return ended >= Number(one.proof.validBefore) ? "authorization expired" : "payment failed";
}

/** The events `[{ state, at, text }]`, in order. */
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

/** The events for a row, with legs. A pending payment is a leg, and the stop at its end is its current status. */
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

/** Milliseconds from the first event to the last, or to now. */
export function totalDuration(one, now) {
	const first = Date.parse(one.asked?.at ?? one.created_at);
	return (isFinal(one) ? Date.parse(one.history.at(-1)[0]) : now) - first;
}
