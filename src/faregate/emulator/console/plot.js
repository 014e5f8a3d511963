// The chart of revenue and outcomes over time: stacked bars for outcomes, failures narrower, a line per asset.

import {$, svg} from "./dom.js";
import {known} from "./feed.js";
import {amount, day, duration, time} from "./format.js";

const LEFT = 34,
	RIGHT = 58,
	TOP = 22,
	BOTTOM = 22,
	FEWEST = 24;

export function draw() {
	const {seconds, intervals, revenue} = known.money;
	const chart = $("chart"),
		width = chart.clientWidth || 640,
		height = 168;
	chart.setAttribute("viewBox", `0 0 ${width} ${height}`);
	$("told").textContent = summarize(revenue, intervals, seconds);
	if (!intervals.length) {
		chart.replaceChildren(
			svg("text", {x: width / 2, y: height / 2, "text-anchor": "middle", text: "No finished payments yet"})
		);
		return;
	}
	const first = intervals[0][0],
		places = Math.max(FEWEST, (intervals.at(-1)[0] - first) / seconds + 1);
	const step = (width - LEFT - RIGHT) / places,
		base = height - BOTTOM,
		tall = base - TOP;
	const most = roundUp(Math.max(...intervals.map(([, good, ill]) => good + ill)));
	const x = second => LEFT + ((second - first) / seconds) * step,
		y = share => base - share * tall;
	const assets = Object.keys(revenue).sort().reverse(),
		curves = assets.map(asset => curve(asset, intervals));
	const top = roundUp(Math.max(0, ...curves.map(points => points.at(-1)[1])) * 1000) / 1000;
	chart.replaceChildren(
		svg("text", {x: 4, y: 9, text: "payments"}),
		svg("text", {x: width - 4, y: 9, "text-anchor": "end", text: "revenue"}),
		...grid(width, y, most, top),
		...intervals.flatMap(([second, good, ill]) =>
			bars(
				x(second),
				step,
				y,
				good / most,
				ill / most,
				`${time(second * 1000).slice(0, 8)}: ${good} succeeded, ${ill} failed`
			)
		),
		...curves.map((points, i) => line(points, assets[i], x, y, top, step)),
		...times(first, seconds, places, x, height)
	);
	$("width").textContent = `per ${seconds < 60 ? `${seconds} s` : duration(seconds * 1000)}`;
}

function curve(asset, intervals) {
	let sum = 0n;
	return intervals.map(([second, , , settled]) => [second, Number((sum += BigInt(settled[asset] ?? 0))) / 1e6]);
}

function grid(width, y, most, top) {
	return [0, 0.5, 1].flatMap(share => [
		svg("line", {class: "axis", x1: LEFT, x2: width - RIGHT, y1: y(share), y2: y(share)}),
		svg("text", {
			x: LEFT - 6,
			y: y(share) + 4,
			"text-anchor": "end",
			text: Number.isInteger(most * share) ? String(most * share) : ""
		}),
		svg("text", {x: width - RIGHT + 6, y: y(share) + 4, text: top ? label(top * share) : ""})
	]);
}

const label = new Intl.NumberFormat("en", {notation: "compact", maximumSignificantDigits: 3}).format;

function bars(x, step, y, good, ill, text) {
	const wide = Math.max(1.5, Math.min(step - 1, 26)),
		base = y(0);
	const bar = (kind, x, width, from, share) =>
		svg("rect", {class: kind, x, width, y: y(from + share), height: base - y(share)}, svg("title", {text}));
	return [
		good ? bar("good", x, wide, 0, good) : null,
		ill ? bar("ill", x + wide / 4, wide / 2, good, ill) : null
	].filter(Boolean);
}

function line(points, asset, x, y, top, step) {
	const places = points.map(([second, sum]) => [x(second) + step / 2, y(top ? sum / top : 0)]);
	const path = places
		.map(([px, py], i) => (i ? `H${px.toFixed(1)}V${py.toFixed(1)}` : `M${px.toFixed(1)} ${y(0)}V${py.toFixed(1)}`))
		.join("");
	return svg("path", {class: `curve ${asset}`, d: `${path}h${(step / 2).toFixed(1)}`});
}

function times(first, seconds, places, x, height) {
	const long = places * seconds > 86_400;
	return [0, 0.5, 1].map(share => {
		const second = first + Math.round(places * share) * seconds;
		const text = long ? `${day(second * 1000)} ${time(second * 1000).slice(0, 5)}` : time(second * 1000).slice(0, 8);
		return svg("text", {
			x: x(second),
			y: height - 6,
			"text-anchor": ["start", "middle", "end"][share * 2],
			text
		});
	});
}

/** The next of 1, 2, 5, 10, 20, ... */
function roundUp(value) {
	const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
	return [1, 2, 5, 10].map(one => one * unit).find(one => one >= value);
}

function summarize(revenue, intervals, seconds) {
	if (!intervals.length) return "No finished payments yet.";
	const good = intervals.reduce((sum, one) => sum + one[1], 0),
		ill = intervals.reduce((sum, one) => sum + one[2], 0);
	const taken =
		Object.entries(revenue)
			.map(([asset, atomic]) => `${amount(atomic)} ${asset}`)
			.join(" and ") || "nothing";
	return `From ${time(intervals[0][0] * 1000).slice(0, 8)} to ${time((intervals.at(-1)[0] + seconds) * 1000).slice(0, 8)}: ${good} succeeded, ${ill} failed, ${taken} revenue.`;
}
