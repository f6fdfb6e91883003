"""What the examples share: a figure to draw on, and where pictures go."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib import pyplot
from matplotlib.axes import Axes


def figure(width: float, height: float) -> Axes:
    """Axes of a new figure of this size in inches, for pictures in files: no screen is needed."""
    matplotlib.use("Agg")
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]


def save(axes: Axes, name: str) -> Path:
    """Write the figure to ``out/<name>.png``, and say so."""
    path = Path("out") / f"{name}.png"
    path.parent.mkdir(exist_ok=True)
    axes.figure.savefig(path, dpi=130)
    pyplot.close(axes.figure)
    print(f"picture: {path}")
    return path
