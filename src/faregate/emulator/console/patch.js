// Updates the DOM in place. A node lives as long as what it shows, so that focus, selection, scroll position and
// a pressed button survive. `data-key` identifies a node among its siblings.

/** Make the children of `holder` equal these. If the focused node goes, focus the first control that is left. */
export function patch(holder, children) {
	const focused = holder.contains(document.activeElement) ? document.activeElement : null;
	reconcile(
		holder,
		children.filter(child => child !== null && child !== undefined)
	);
	if (focused && !focused.isConnected) holder.querySelector("button, summary")?.focus({preventScroll: true});
}

/** Insert new nodes between those that stay, which are moved only if their order changed. */
function reconcile(holder, fresh) {
	const old = [...holder.childNodes];
	const children = fresh.map(one => {
		const at = old.findIndex(other => other === one || isSame(other, one));
		return at < 0 ? one : update(old.splice(at, 1)[0], one);
	});
	for (const one of old) one.remove();
	children.forEach((one, i) => {
		if (holder.childNodes[i] !== one) holder.insertBefore(one, holder.childNodes[i] ?? null);
	});
}

const isSame = (one, other) => one.nodeName === other.nodeName && one.dataset?.key === other.dataset?.key;

/** Keep `open`, which the reader decides. Set styles by script, because the page's policy forbids the attribute. */
function update(node, fresh) {
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
	reconcile(node, [...fresh.childNodes]);
	return node;
}
