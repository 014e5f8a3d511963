// Keeps what is shown up to date in place: a node lives as long as what it shows, so that nothing which is
// pressed, focused, selected or scrolled is lost. `data-key` says which is which among its neighbours.

/** Makes the children of `holder` like these. Focus that goes with its node goes to the first control left. */
export function patch(holder, children) {
	const focused = holder.contains(document.activeElement) ? document.activeElement : null;
	arrange(
		holder,
		children.filter(child => child !== null && child !== undefined)
	);
	if (focused && !focused.isConnected) holder.querySelector("button, summary")?.focus({preventScroll: true});
}

/** New ones are put between those that stay; these are not moved unless their order has changed. */
function arrange(holder, fresh) {
	const old = [...holder.childNodes];
	const children = fresh.map(one => {
		const at = old.findIndex(other => other === one || isSame(other, one));
		return at < 0 ? one : become(old.splice(at, 1)[0], one);
	});
	for (const one of old) one.remove();
	children.forEach((one, i) => {
		if (holder.childNodes[i] !== one) holder.insertBefore(one, holder.childNodes[i] ?? null);
	});
}

const isSame = (one, other) => one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;

/** Whether a part is unfolded is for its reader to say. The policy of the page forbids `style` as an attribute. */
function become(node, fresh) {
	if (node === fresh) return node;
	if (node.nodeType === Node.TEXT_NODE) {
		if (node.data !== fresh.data) node.data = fresh.data;
		return node;
	}
	for (const name of node.getAttributeNames()) {
		if (!fresh.hasAttribute(name) && name !== "open") node.removeAttribute(name);
	}
	for (const {name, value} of fresh.attributes) {
		if (name === "open" || node.getAttribute(name) === value) continue;
		if (name === "style") node.style.cssText = value;
		else node.setAttribute(name, value);
	}
	node.onclick = fresh.onclick;
	arrange(node, [...fresh.childNodes]);
	return node;
}
