"""Hillshade, slope statistics and contour lines of a real elevation model, beside the same in NumPy.

The data is the Jacksboro fault (Tennessee) at 3 arc seconds, which Matplotlib ships. Run it with ``make demo``; it
prints each kernel's time beside the NumPy equivalent and the largest difference, and draws ``out/terrain.png``.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib import cbook, pyplot
from matplotlib.collections import LineCollection

import tack

ZOOM = 4  # the elevation model is refined this many times in each direction
BINS = 60  # one slope class a degree
INTERVAL = 50.0  # metres between contour lines
MAX_SEGMENTS = 1_000_000

# Marching squares: for each of the 16 cases, up to two segments, each from one cell edge to another; -1 is none.
# Corners: bit 1 upper left, 2 upper right, 4 lower right, 8 lower left. Edges: 0 top, 1 right, 2 bottom, 3 left.
# The two saddles, 5 and 10, are turned into one another by the value at the centre.
# fmt: off
SEGMENTS = (
    -1, -1, -1, -1,   3, 0, -1, -1,   0, 1, -1, -1,   3, 1, -1, -1,
    1, 2, -1, -1,     3, 0, 1, 2,     0, 2, -1, -1,   3, 2, -1, -1,
    2, 3, -1, -1,     2, 0, -1, -1,   0, 1, 2, 3,     2, 1, -1, -1,
    1, 3, -1, -1,     1, 0, -1, -1,   0, 3, -1, -1,   -1, -1, -1, -1,
)
# fmt: on


# ------------------------------------------------------------------------------------------------------ the kernels


@tack.func
def cubic(p0, p1, p2, p3, t):
    """Catmull-Rom interpolation between p1 and p2."""
    a = 3.0 * (p1 - p2) + p3 - p0
    b = 2.0 * p0 - 5.0 * p1 + 4.0 * p2 - p3
    return p1 + 0.5 * t * (p2 - p0 + t * (b + t * a))


@tack.func
def row(dem, y, x, t):
    """The elevation between columns x and x + 1 of row y; outside the model its edge goes on."""
    yy = min(max(y, 0), dem.shape[0] - 1)
    last = dem.shape[1] - 1
    return cubic(
        tack.f32(dem[yy, min(max(x - 1, 0), last)]),
        tack.f32(dem[yy, min(max(x, 0), last)]),
        tack.f32(dem[yy, min(x + 1, last)]),
        tack.f32(dem[yy, min(x + 2, last)]),
        t,
    )


@tack.kernel
def refine(dem, out):
    for y, x in tack.ndrange(out.shape[0], out.shape[1]):
        sy, sx = y // ZOOM, x // ZOOM
        ty = tack.f32(y % ZOOM) / ZOOM
        tx = tack.f32(x % ZOOM) / ZOOM
        out[y, x] = cubic(
            row(dem, sy - 1, sx, tx), row(dem, sy, sx, tx), row(dem, sy + 1, sx, tx), row(dem, sy + 2, sx, tx), ty
        )


@tack.kernel
def hillshade(z, slope, shade, cell_x, cell_y, sun_x, sun_y, sun_z):
    for y, x in tack.ndrange((1, z.shape[0] - 1), (1, z.shape[1] - 1)):
        west = z[y - 1, x - 1] + 2.0 * z[y, x - 1] + z[y + 1, x - 1]
        east = z[y - 1, x + 1] + 2.0 * z[y, x + 1] + z[y + 1, x + 1]
        north = z[y - 1, x - 1] + 2.0 * z[y - 1, x] + z[y - 1, x + 1]
        south = z[y + 1, x - 1] + 2.0 * z[y + 1, x] + z[y + 1, x + 1]
        dx = (east - west) / (8.0 * cell_x)
        dy = (south - north) / (8.0 * cell_y)
        steep = dx * dx + dy * dy
        slope[y, x] = math.atan(math.sqrt(steep)) * (180.0 / math.pi)
        light = (sun_z - sun_x * dx - sun_y * dy) / math.sqrt(1.0 + steep)
        shade[y, x] = max(light, 0.0)


@tack.kernel
def slope_classes(slope, counts):
    for y, x in tack.ndrange((1, slope.shape[0] - 1), (1, slope.shape[1] - 1)):
        tack.atomic_add(counts, min(tack.i32(slope[y, x]), BINS - 1), 1)


@tack.func
def crossing(a, b, level):
    """Where between two corners of height a and b the level lies, in [0, 1]."""
    return (level - a) / (b - a)


@tack.kernel
def contours(z, segments, count, first, levels):
    for y, x in tack.ndrange(z.shape[0] - 1, z.shape[1] - 1):
        a, b = z[y, x], z[y, x + 1]
        d, c = z[y + 1, x], z[y + 1, x + 1]
        low = min(a, b, c, d)
        high = max(a, b, c, d)
        for k in range(levels):
            level = first + tack.f32(k) * INTERVAL
            if low <= level < high:
                case = (a > level) + 2 * (b > level) + 4 * (c > level) + 8 * (d > level)
                if (case == 5 or case == 10) and (a + b + c + d) * 0.25 <= level:
                    case = 15 - case
                for s in range(2):
                    start, end = SEGMENTS[4 * case + 2 * s], SEGMENTS[4 * case + 2 * s + 1]
                    if start >= 0:
                        at = tack.atomic_add(count, 0, 1)
                        for e in range(2):
                            edge = start if e == 0 else end
                            px, py = tack.f32(x), tack.f32(y)
                            if edge == 0:
                                px += crossing(a, b, level)
                            elif edge == 1:
                                px += 1.0
                                py += crossing(b, c, level)
                            elif edge == 2:
                                px += crossing(d, c, level)
                                py += 1.0
                            else:
                                py += crossing(a, d, level)
                            segments[at, 2 * e] = px
                            segments[at, 2 * e + 1] = py


# ------------------------------------------------------------------------------------------------- the same in NumPy


def np_cubic(p, t):
    p0, p1, p2, p3 = p
    a = np.float32(3) * (p1 - p2) + p3 - p0
    b = np.float32(2) * p0 - np.float32(5) * p1 + np.float32(4) * p2 - p3
    return p1 + np.float32(0.5) * t * (p2 - p0 + t * (b + t * a))


def np_refine(dem):
    z = dem.astype(np.float32)
    y, x = (np.arange(n * ZOOM) for n in dem.shape)
    clip = lambda i, n: np.clip(i, 0, n - 1)  # noqa: E731
    tx = ((x % ZOOM).astype(np.float32) / np.float32(ZOOM))[None, :]
    ty = ((y % ZOOM).astype(np.float32) / np.float32(ZOOM))[:, None]
    columns = [clip(x // ZOOM + k, dem.shape[1]) for k in (-1, 0, 1, 2)]
    rows = [clip(y // ZOOM + k, dem.shape[0]) for k in (-1, 0, 1, 2)]
    wide = np_cubic([z[:, c] for c in columns], tx)
    return np_cubic([wide[r] for r in rows], ty)


def np_hillshade(z, cell_x, cell_y, sun):
    two, eight = np.float32(2), np.float32(8)
    nw, n, ne = z[:-2, :-2], z[:-2, 1:-1], z[:-2, 2:]
    w, e = z[1:-1, :-2], z[1:-1, 2:]
    sw, s, se = z[2:, :-2], z[2:, 1:-1], z[2:, 2:]
    dx = ((ne + two * e + se) - (nw + two * w + sw)) / (eight * np.float32(cell_x))
    dy = ((sw + two * s + se) - (nw + two * n + ne)) / (eight * np.float32(cell_y))
    steep = dx * dx + dy * dy
    sx, sy, sz = map(np.float32, sun)
    slope, shade = np.zeros_like(z), np.zeros_like(z)
    slope[1:-1, 1:-1] = np.arctan(np.sqrt(steep)) * np.float32(180 / math.pi)
    shade[1:-1, 1:-1] = np.maximum((sz - sx * dx - sy * dy) / np.sqrt(np.float32(1) + steep), np.float32(0))
    return slope, shade


def np_slope_classes(slope):
    return np.bincount(np.minimum(slope[1:-1, 1:-1].astype(np.int32), BINS - 1).ravel(), minlength=BINS)


def np_contours(z, first, levels):
    a, b, d, c = z[:-1, :-1], z[:-1, 1:], z[1:, :-1], z[1:, 1:]
    table = np.array(SEGMENTS).reshape(16, 2, 2)
    found = []
    for k in range(levels):
        level = np.float32(first) + np.float32(k) * np.float32(INTERVAL)
        case = (a > level) + 2 * (b > level) + 4 * (c > level) + 8 * (d > level)
        saddle = ((case == 5) | (case == 10)) & ((a + b + c + d) * np.float32(0.25) <= level)
        case = np.where(saddle, 15 - case, case)
        y, x = np.nonzero((case > 0) & (case < 15))
        corner = [v[y, x] for v in (a, b, c, d)]
        fx, fy, one = x.astype(np.float32), y.astype(np.float32), np.float32(1)
        with np.errstate(divide="ignore", invalid="ignore"):
            cross = lambda p, q: (level - corner[p]) / (corner[q] - corner[p])  # noqa: E731, B023
            px = np.stack([fx + cross(0, 1), fx + one, fx + cross(3, 2), fx])
            py = np.stack([fy, fy + cross(1, 2), fy + one, fy + cross(0, 3)])
        for s in range(2):
            start, end = table[case[y, x], s].T
            i = np.nonzero(start >= 0)[0]
            found.append(np.stack([px[start[i], i], py[start[i], i], px[end[i], i], py[end[i], i]], axis=1))
    return np.concatenate(found)


# --------------------------------------------------------------------------------------------------- run and draw


def best_of(run: Callable[[], object], times: int = 5) -> tuple[float, object]:
    """The least time of several runs in milliseconds, and the last result."""
    least = math.inf
    for _ in range(times):
        start = time.perf_counter()
        result = run()
        least = min(least, time.perf_counter() - start)
    return least * 1e3, result


def report(name: str, tack_ms: float, numpy_ms: float, difference: float) -> None:
    ratio = numpy_ms / tack_ms
    print(f"{name:<16}{tack_ms:>10.2f}{numpy_ms:>12.2f}{ratio:>9.1f} x{difference:>22.3g}")


def sorted_rows(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T[::-1])]


def read_model() -> tuple[np.ndarray, float, float]:
    """The elevations in metres (i16), and the width and height of a refined cell in metres."""
    with cbook.get_sample_data("jacksboro_fault_dem.npz") as model:
        dem = np.ascontiguousarray(model["elevation"])
        degree = 111_200.0  # metres a degree of latitude
        middle = math.radians((float(model["ymin"]) + float(model["ymax"])) / 2)
        cell_y = float(model["dy"]) * degree / ZOOM
        cell_x = float(model["dx"]) * degree * math.cos(middle) / ZOOM
    return dem, cell_x, cell_y


def draw(z, slope, shade, counts, segments, path: Path) -> None:
    figure, axes = pyplot.subplots(figsize=(11, 9), layout="constrained")
    span = z.min(), z.max()
    colour = pyplot.get_cmap("gist_earth")(0.15 + 0.75 * (z - span[0]) / (span[1] - span[0]))[..., :3]
    axes.imshow(np.clip(colour * (0.25 + 0.95 * shade[..., None]), 0, 1)[1:-1, 1:-1])
    lines = segments.reshape(-1, 2, 2) - 1.0
    axes.add_collection(LineCollection(lines, colors="black", linewidths=0.35, alpha=0.55), autolim=False)
    axes.set(title=f"Jacksboro fault: hillshade and contour lines every {INTERVAL:.0f} m", xticks=[], yticks=[])
    axes.margins(0)
    axes.add_patch(
        pyplot.Rectangle((0.62, 0), 0.38, 0.3, transform=axes.transAxes, color="white", alpha=0.85, zorder=3)
    )
    inset = axes.inset_axes((0.69, 0.08, 0.29, 0.2), zorder=4)
    inset.bar(np.arange(BINS) + 0.5, counts / counts.sum() * 100, width=1.0, color="#40606e")
    inset.set(xlabel="slope (degrees)", ylabel="% of the area", xlim=(0, 45))
    inset.set_facecolor("none")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    dem, cell_x, cell_y = read_model()
    shape = dem.shape[0] * ZOOM, dem.shape[1] * ZOOM
    azimuth, altitude = math.radians(315), math.radians(40)
    # The image's x runs east and its y south; the normal of the ground is (-dx, -dy, 1).
    sun = (
        math.sin(azimuth) * math.cos(altitude),
        -math.cos(azimuth) * math.cos(altitude),
        math.sin(altitude),
    )
    z, slope, shade = (np.zeros(shape, np.float32) for _ in range(3))
    counts = np.zeros(BINS, np.int32)
    segments, found = np.zeros((MAX_SEGMENTS, 4), np.float32), np.zeros(1, np.int32)
    wide = f"{dem.shape[1]} x {dem.shape[0]} refined to {shape[1]} x {shape[0]}"
    print(f"elevation model of {wide}, on device {tack.current_device().name}")
    print(f"{'kernel':<16}{'Tack ms':>10}{'NumPy ms':>12}{'faster':>11}{'largest difference':>22}")

    ours, _ = best_of(lambda: refine(dem, z))
    theirs, z_np = best_of(lambda: np_refine(dem), 2)
    report("refine", ours, theirs, np.abs(z - z_np).max())

    ours, _ = best_of(lambda: hillshade(z, slope, shade, cell_x, cell_y, *sun))
    theirs, (slope_np, shade_np) = best_of(lambda: np_hillshade(z, cell_x, cell_y, sun), 2)
    report("hillshade", ours, theirs, max(np.abs(slope - slope_np).max(), np.abs(shade - shade_np).max()))

    def count() -> None:
        counts.fill(0)
        slope_classes(slope, counts)

    ours, _ = best_of(count)
    theirs, counts_np = best_of(lambda: np_slope_classes(slope), 2)
    report("slope_classes", ours, theirs, np.abs(counts - counts_np).max())

    first = math.ceil(float(z.min()) / INTERVAL) * INTERVAL
    levels = int((float(z.max()) - first) // INTERVAL) + 1

    def trace() -> None:
        found.fill(0)
        contours(z, segments, found, first, levels)

    ours, _ = best_of(trace)
    theirs, segments_np = best_of(lambda: np_contours(z, first, levels), 2)
    lines = segments[: found[0]]
    assert len(lines) == len(segments_np), f"{len(lines)} segments against {len(segments_np)}"
    report("contours", ours, theirs, np.abs(sorted_rows(lines) - sorted_rows(segments_np)).max())

    inner = slope[1:-1, 1:-1]
    print(f"slope: mean {inner.mean():.1f}, steepest {inner.max():.1f} degrees; {len(lines)} contour segments")
    path = Path("out") / "terrain.png"
    draw(z, slope, shade, counts, lines, path)
    print(f"picture: {path}")


if __name__ == "__main__":
    main()
