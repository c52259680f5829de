// Borders that can be dragged: between the parts of the page, and between panes.
import { make } from "./dom.js";

const NARROW = 80;

export const within = (number, least, most) => Math.max(least, Math.min(number, Math.max(least, most)));

/** Call `move` with where the pointer is, from when it goes down on an element until it goes up. */
export function dragged(element, move) {
  const follow = (event) => move(event.clientX, event.clientY);
  element.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    element.setPointerCapture(event.pointerId);
    element.addEventListener("pointermove", follow);
  });
  for (const end of ["pointerup", "pointercancel"]) element.addEventListener(end, () => element.removeEventListener("pointermove", follow));
}

/**
 * Columns for panes side by side, as wide as their weights say; what is given back lies between two of them and shares
 * out their room.
 */
export function betweenPanes(panes, elements, given) {
  const weights = [...given];
  const share = () => {
    panes.style.gridTemplateColumns = weights.map((weight) => `minmax(0, ${weight}fr)`).join(" ");
  };
  elements.forEach((element, index) => {
    element.style.gridColumn = String(index + 1);
    element.style.gridRow = "1";
  });
  share();
  return elements.slice(1).map((right, index) => {
    const border = make("div", "between");
    border.setAttribute("role", "separator");
    border.setAttribute("aria-orientation", "vertical");
    border.title = "drag to resize";
    border.style.gridColumn = String(index + 1);
    dragged(border, (x) => {
      const [left, end] = [elements[index].getBoundingClientRect().left, right.getBoundingClientRect().right];
      const both = weights[index] + weights[index + 1];
      weights[index] = (both * (within(x, left + NARROW, end - NARROW) - left)) / (end - left);
      weights[index + 1] = both - weights[index];
      share();
    });
    return border;
  });
}
