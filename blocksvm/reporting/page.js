// What a point of a chart says, shown beside the pointer or finger.  Texts are put in as texts, never as HTML.
"use strict";

// The point that lies nearest to a place, among [{x, y}], or null where none is within reach.
function nearest(points, x, y, reach) {
  let found = null, least = reach * reach;
  for (const point of points) {
    const distance = (point.x - x) ** 2 + (point.y - y) ** 2;
    if (distance <= least) {
      least = distance;
      found = point;
    }
  }
  return found;
}

// Where a box of this size goes, so that it stays within the window.
function beside(x, y, width, height, window_width, window_height) {
  const left = Math.min(Math.max(4, x + 14), window_width - width - 4);
  const top = y + 18 + height > window_height ? y - height - 10 : y + 18;
  return [Math.max(4, left), Math.max(4, top)];
}

function watch(svg, tip) {
  const points = [];
  for (const mark of svg.querySelectorAll("circle.point, rect")) {
    const title = mark.querySelector("title");
    if (!title) continue;
    const text = title.textContent;
    title.remove(); // or the browser would show it as well
    if (mark.tagName === "rect") {
      mark.addEventListener("pointermove", (event) => show(tip, text, event));
      continue;
    }
    points.push({ x: +mark.getAttribute("cx"), y: +mark.getAttribute("cy"), text, mark });
  }
  let shown = null;
  function leave() {
    if (shown) shown.mark.classList.remove("near");
    shown = null;
    tip.hidden = true;
  }
  if (points.length) {
    svg.addEventListener("pointermove", (event) => {
      const scale = svg.viewBox.baseVal.width / svg.getBoundingClientRect().width;
      const corner = svg.getBoundingClientRect();
      const found = nearest(points, (event.clientX - corner.left) * scale, (event.clientY - corner.top) * scale, 30);
      leave();
      if (!found) return;
      shown = found;
      found.mark.classList.add("near");
      show(tip, found.text, event);
    });
  }
  svg.addEventListener("pointerleave", leave);
}

function show(tip, text, event) {
  tip.textContent = text;
  tip.hidden = false;
  const size = tip.getBoundingClientRect();
  const [left, top] = beside(event.clientX, event.clientY, size.width, size.height, innerWidth, innerHeight);
  tip.style.left = left + "px";
  tip.style.top = top + "px";
}

function begin(page) {
  const tip = page.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  page.body.append(tip);
  page.querySelectorAll("svg.chart, svg.timeline").forEach((svg) => watch(svg, tip));
}

if (typeof document !== "undefined") begin(document);
if (typeof module !== "undefined") module.exports = { nearest, beside, begin };
