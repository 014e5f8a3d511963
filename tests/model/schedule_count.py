"""How many schedules a search stands for: the ways from the first state to one where nothing can happen."""

from array import array


def number_of_schedules(edges: "array[int]") -> int:
    """`edges`: for each state its number of moves, and where they lead; the first state comes first.

    Raises `ValueError` if a way leads back to where it was: a schedule would have no end then.
    """
    starts = _starts(edges)
    arrivals = array("q", bytes(8 * len(starts)))
    for start in starts:
        for target in edges[start + 1 : start + 1 + edges[start]]:
            arrivals[target] += 1
    ways = [0] * len(starts)
    ways[0], done, total = 1, 0, 0
    ready = [] if arrivals[0] else [0]
    while ready:
        state = ready.pop()
        done += 1
        start, here = starts[state], ways[state]
        total += here if not edges[start] else 0
        for target in edges[start + 1 : start + 1 + edges[start]]:
            ways[target] += here
            arrivals[target] -= 1
            if not arrivals[target]:
                ready.append(target)
    if done < len(starts):
        raise ValueError("a schedule without an end")
    return total


def _starts(edges: "array[int]") -> "array[int]":
    starts, at = array("q"), 0
    while at < len(edges):
        starts.append(at)
        at += 1 + edges[at]
    return starts
