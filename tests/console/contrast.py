"""How well each text of a page stands out from what is behind it (WCAG 2.2, 1.4.3)."""

from typing import Final

from playwright.sync_api import Page

FAINTEST: Final = 4.5

_MEASURE: Final = """
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgba(getComputedStyle(node).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const found = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement, text = walker.currentNode.data.trim();
    if (!text || !node.checkVisibility() || node.closest(":disabled, .hidden, option")) continue;
    const style = getComputedStyle(node);
    const color = rgba(node instanceof SVGElement ? style.fill : style.color);
    const [high, low] = [light(color), light(behind(node))].sort((a, b) => b - a);
    found.push([(high + 0.05) / (low + 0.05), text.slice(0, 40)]);
  }
  return found;
}
"""


def contrasts(page: Page) -> list[tuple[float, str]]:
    """The ratio of each visible text, and its beginning."""
    return [(ratio, text) for ratio, text in page.evaluate(_MEASURE)]
