// Nothing moves under a pointer that is about to click.

/** A list waits while it is pressed, and so many milliseconds after the pointer moved in it. */
const STILL = 400;

/** Gives a function that draws `holder`: at once, or as soon as it may. */
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
