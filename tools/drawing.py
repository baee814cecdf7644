#!/usr/bin/env python3
"""Draws docs/how-it-works.svg: from the store on a disk to the certificate."""

from __future__ import annotations

from html import escape
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "docs" / "how-it-works.svg"
INK, GREY, BLUE, ORANGE, GREEN = "#24292f", "#d5d9de", "#4c86c6", "#e39a3b", "#5aa469"
FIRST, SECOND, MOVABLE = {2, 9, 15, 19, 30, 34}, {4, 7, 18, 23, 26, 31}, (BLUE, ORANGE, GREY, BLUE, GREY)


def box(x: int, y: int, width: int, height: int, fill: str, line: str = INK, dash: str = "") -> str:
    """A rectangle with its upper left corner at (x, y); dash: as SVG writes the pattern of a dashed line."""
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="4" fill="{fill}" stroke="{line}"{dashed}/>'


def text(x: int, y: int, *lines: str, bold: bool = False) -> str:
    """Lines of text, centred at x, the first on y."""
    weight = ' font-weight="bold"' if bold else ""
    spans = (f'<tspan x="{x}" y="{y + 18 * k}">{escape(line)}</tspan>' for k, line in enumerate(lines))
    return f'<text text-anchor="middle"{weight}>{"".join(spans)}</text>'


def arrow(path: str, both: bool = False) -> str:
    """An arrow along a path as SVG writes it; both: with a head at each end."""
    heads = 'marker-start="url(#head)" marker-end="url(#head)"' if both else 'marker-end="url(#head)"'
    return f'<path d="{path}" fill="none" stroke="{INK}" stroke-width="1.6" {heads}/>'


def drawing() -> str:
    colour = [BLUE if k in FIRST else ORANGE if k in SECOND else GREY for k in range(36)]
    store = [box(40 + 28 * (k % 6), 86 + 28 * (k // 6), 22, 22, colour[k], "none") for k in range(36)]
    visited, following = ([box(x, 96, 22, 56, fill, "none") for x in range(330, 480, 28)] for fill in (BLUE, ORANGE))
    following = [part.replace('y="96"', 'y="246"') for part in following]
    kept = [box(590, 246 + 12 * k, 150, 8, fill, "none") for k, fill in enumerate(MOVABLE)]
    parts = [
        box(0, 0, 1040, 420, "#ffffff", "none"),
        # the store
        box(20, 70, 208, 200, "#ffffff"), *store,
        text(124, 56, "store on disk", bold=True),
        text(124, 292, "chunks: some hundred parts", "of the rows, in random order"),
        # memory
        box(290, 20, 480, 340, "#f6f8fa", INK, "6 4"), text(530, 44, "in memory, within --memory", bold=True),
        box(310, 86, 200, 76, "#ffffff"), *visited, text(410, 78, "block: chunks drawn at random"),
        box(310, 236, 200, 76, "#ffffff"), *following, text(410, 228, "next block, read meanwhile"),
        box(590, 86, 150, 76, "#ffffff"),
        text(665, 78, "weights and dual variables"), text(665, 117, "w: one a feature", "α: one a row"),
        *kept, text(640, 228, "working set"), text(665, 330, "rows that can still move", "stay between readings"),
        text(410, 182, "passes over its rows"),
        # the certificate
        box(826, 86, 194, 112, "#ffffff"), text(923, 56, "certificate", bold=True),
        text(923, 112, "gap = P(w) − D(α)", "over all rows, at one w:", "no weights have an", "objective below D(α)"),
        box(864, 254, 118, 44, "#ffffff", GREEN), text(923, 281, "model.h5", bold=True),
        # from one to the next
        arrow("M228 124 H306"), text(267, 116, "read"),
        arrow("M228 262 H306"),
        arrow("M516 124 H584", both=True), text(550, 116, "step"),
        arrow("M712 240 V168", both=True),
        arrow("M746 124 H820"), text(797, 116, "if due"),
        arrow("M923 198 V248"), text(974, 230, "gap ≤ --tol"),
        arrow("M844 198 V390 H124 V324"), text(530, 382, "gap > --tol: the next outer iteration, in other blocks"),
    ]  # fmt: skip
    return "\n".join(
        [
            '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1040 420" font-family="sans-serif" font-size="14"'
            f' fill="{INK}">',
            "<title>From a store to a certificate</title>",
            '<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="7" markerHeight="7"'
            f' orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{INK}"/></marker></defs>',
            *parts,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    TARGET.write_text(drawing())
