// How amounts, moments and addresses are written.

const DECIMALS = 6n;

/** Atomic units as a decimal number, exact, with at least two places. */
export function amount(atomic) {
	const value = BigInt(atomic),
		unit = 10n ** DECIMALS,
		size = value < 0n ? -value : value;
	const fraction = String(size % unit)
		.padStart(Number(DECIMALS), "0")
		.replace(/0+$/, "")
		.padEnd(2, "0");
	const whole = String(size / unit).replace(/\B(?=(\d{3})+$)/g, ",");
	return `${value < 0n ? "−" : ""}${whole}.${fraction}`;
}

/** What a payment takes: its price, or of a maximum what was used. */
export function price(one) {
	const most = one.maximum === null ? "" : one.amount === null ? "up to " : `${amount(one.amount)} of `;
	return `${most}${amount(one.maximum ?? one.amount)} ${one.asset}`;
}

export const short = text => (text.length > 14 ? `${text.slice(0, 6)}…${text.slice(-4)}` : text);

export const payerName = one => one.payer_name ?? short(one.payer);

/** Milliseconds between two moments, which may have microseconds. */
export const between = (from, to) => Date.parse(to) - Date.parse(from);

export function duration(ms) {
	if (ms < 1) return "0 s";
	if (ms < 1000) return `${Math.round(ms)} ms`;
	if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
	const s = Math.round(ms / 1000);
	if (s < 60) return `${s} s`;
	if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
	if (s < 86_400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
	return `${Math.floor(s / 86_400)} d ${Math.floor((s % 86_400) / 3600)} h`;
}

export function bytes(size) {
	if (size < 1024) return `${size} B`;
	return size < 1024 ** 2 ? `${(size / 1024).toFixed(1)} KiB` : `${(size / 1024 ** 2).toFixed(1)} MiB`;
}

/** The time of day with milliseconds, UTC. */
export const time = moment => new Date(moment).toISOString().slice(11, 23);

/** The time of day, after the day if that is another than now's. */
export const when = (moment, now) =>
	`${day(moment) === day(now) ? "" : `${day(moment)} `}${time(moment).slice(0, 8)}`;

export const day = moment => new Date(moment).toISOString().slice(0, 10);

/** How a payment is to end, in words. */
export function rule(plan) {
	if (!plan) return "at once";
	const to = plan.to === "failed" ? "fails" : "succeeds",
		moved = plan.amount ? `, and moves ${amount(plan.amount)} whatever was used` : "",
		late = `${plan.via ? `, ${plan.via} until then` : ""}${moved}`;
	if (plan.manual) return `waits for Settle or Fail${late}`;
	if (plan.until_expiry) return `fails when the authorization expires${late}`;
	if (plan.after_seconds) return `${to} after ${duration(plan.after_seconds * 1000)}${late}`;
	return plan.after_reads ? `${to} on read ${plan.after_reads}${late}` : `${to} at once${moved}`;
}
