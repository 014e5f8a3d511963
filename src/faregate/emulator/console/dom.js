// Elements. Whatever comes from outside goes in as text, never as markup.

export const $ = id => document.getElementById(id);

/** An element: attributes, `on...` listeners, `text`, and children. Null attributes are left out. */
export function el(tag, given = {}, ...children) {
	return fill(document.createElement(tag), given, children);
}

export const span = (kind, ...children) => el("span", {class: kind}, children);

export function svg(tag, given = {}, ...children) {
	return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), given, children);
}

function fill(node, given, children) {
	for (const [name, value] of Object.entries(given)) {
		if (value === null || value === undefined || value === false) continue;
		if (name === "text") node.textContent = value;
		else if (name.startsWith("on")) node[name] = value;
		else node.setAttribute(name, value === true ? "" : value);
	}
	node.append(...children.flat(2).filter(child => child !== null && child !== undefined));
	return node;
}

const SHAPES = {
	authorized: [["circle", {cx: 8, cy: 8, r: 5.5}]],
	settling: [
		["circle", {cx: 8, cy: 8, r: 5.5}],
		["path", {d: "M8 2.5a5.5 5.5 0 0 1 0 11z", class: "full"}]
	],
	reconciling: [
		["path", {d: "M8 1.8 14.2 8 8 14.2 1.8 8z"}],
		["path", {d: "M8 1.8 14.2 8 8 14.2z", class: "full"}]
	],
	succeeded: [["path", {d: "M2.5 8.5 6.5 12.5 13.5 4"}]],
	failed: [["path", {d: "M3.5 3.5 12.5 12.5M12.5 3.5 3.5 12.5"}]],
	asked: [["path", {d: "M3 3h10v10H3z"}]],
	complete: [["path", {d: "M8 3v10M3 8h10"}]]
};

/** The shape of a state, in its colour. */
export function glyph(state) {
	const parts = SHAPES[state].map(([tag, given]) => svg(tag, given));
	return svg("svg", {class: `glyph is-${state}`, viewBox: "0 0 16 16", "aria-hidden": "true"}, parts);
}

let timer;
/** Says something for some seconds, aloud too. */
export function toast(text) {
	clearTimeout(timer);
	$("toast").textContent = text;
	timer = setTimeout(() => ($("toast").textContent = ""), 6000);
}
