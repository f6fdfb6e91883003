"""The plot of the throughput table: a line a workload, a mark an implementation, times relative to C."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks import harness
from benchmarks.peers import PEERS

C = ("gcc", "clang")
# Marks and colours, apart in brightness too; Tack's is drawn last and largest.
STYLES = {
    "NumPy": ("D", "#9aa0a6"),
    "JAX": ("v", "#c58fd1"),
    "Warp": ("^", "#7fb069"),
    "Quadrants": ("s", "#e9a23b"),
    "Taichi": ("P", "#b8860b"),
    "Numba": ("o", "#4a90c2"),
    "Tack": ("o", "#c8102e"),
}
INK, FAINT = "#333333", "#dddddd"


def draw(rows: Sequence[harness.Row], path: Path) -> None:
    """Write the plot as SVG; rows without C are left out."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    shown = [row for row in rows if row.median(*C) is not None]
    figure = Figure(figsize=(9, 1.6 + 0.36 * len(shown)), layout="constrained")
    axes = figure.add_subplot()
    for name, (marker, colour) in STYLES.items():
        points = [
            (row.timings[name].median / (row.median(*C) or 1.0), k)
            for k, row in enumerate(shown)
            if name in row.timings
        ]
        if points:
            size, order = (90, 4) if name == "Tack" else (34, 3)
            xs, ys = zip(*points, strict=True)
            label = name if name != "Tack" else "Tack (this project)"
            axes.scatter(xs, ys, size, colour, marker, label=label, zorder=order, edgecolors="white", linewidths=0.6)
    axes.axvline(1.0, color=INK, linewidth=1.2, zorder=2)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [tick for tick in (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100) if low <= tick <= high]
    axes.set_xticks(ticks, [f"{tick:g}×" for tick in ticks], fontsize=9, color=INK)
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(shown)), [row.name for row in shown], fontsize=9, color=INK)
    axes.invert_yaxis()
    axes.tick_params(length=0)
    axes.grid(axis="both", color=FAINT, linewidth=0.7)
    axes.set_axisbelow(True)
    for side in axes.spines.values():
        side.set_visible(False)
    axes.set_xlabel("time beside the better of gcc and clang: further left is faster", fontsize=9, color=INK)
    figure.legend(*_ordered(axes), loc="outside upper center", ncols=len(PEERS) + 2, frameon=False, fontsize=9)
    # Text as text: light, and a reader can search it.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "tack"}):
        FigureCanvasSVG(figure).print_svg(str(path), metadata={"Date": None})


def _ordered(axes):
    """The legend's marks and names, Tack's first."""
    handles, labels = axes.get_legend_handles_labels()
    return handles[::-1], labels[::-1]
