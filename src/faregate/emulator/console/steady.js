// Keeps lists from moving under a pointer that is about to click.

/** Milliseconds without pointer movement before a list is redrawn. */
const STILL = 400;

/** Return a function that draws `holder` at once, or as soon as the pointer rests. */
export function steady(holder) {
	let pressed = false,
		moved = -STILL,
		waiting;
	holder.onpointermove = () => (moved = performance.now());
	holder.onpointerdown = () => (pressed = true);
	for (const over of ["pointerup", "pointercancel"])
		addEventListener(over, () => setTimeout(() => (pressed = false)));
	return function draw(drawing) {
		clearTimeout(waiting);
		if (pressed || performance.now() - moved < STILL) waiting = setTimeout(draw, STILL / 4, drawing);
		else drawing();
	};
}
