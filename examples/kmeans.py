"""K-means: the colours of a picture become a palette of eight; draws ``out/kmeans.png``.

Sums of colours are atomics on whole numbers, so the result has the same bits whatever the order in which threads
arrive, and the check can ask for equality with NumPy.
"""

from __future__ import annotations

import numpy as np
from common import save
from matplotlib import cbook, pyplot

import tack


@tack.kernel
def assign(points, centres, labels, counts, sums, moved):
    """Give each point to the nearest centre, and gather what the new centres are made of."""
    for i in range(points.shape[0]):
        nearest, least = 0, 1 << 30
        for k in range(centres.shape[0]):
            distance = 0
            for d in range(3):
                apart = tack.i32(points[i, d]) - centres[k, d]
                distance += apart * apart
            if distance < least:  # the first of two that are equally near
                nearest, least = k, distance
        if labels[i] != nearest:
            labels[i] = nearest
            tack.atomic_add(moved, 0, 1)
        tack.atomic_add(counts, nearest, 1)
        for d in range(3):
            tack.atomic_add(sums, (nearest, d), points[i, d])


@tack.kernel
def update(centres, counts, sums, moved):
    """Put each centre in the middle of its points, rounded down; one without points stays. Clear for the next round."""
    for k in range(centres.shape[0]):
        for d in range(3):
            if counts[k] > 0:
                centres[k, d] = sums[k, d] // counts[k]
            sums[k, d] = 0
        counts[k] = 0
    for i in range(1):
        moved[i] = 0


def kmeans(points: np.ndarray, centres: np.ndarray, rounds: int = 200) -> tuple[np.ndarray, np.ndarray, int]:
    """Labels, centres, and how many rounds it took until no point changed its centre; points are u8 of shape (n, 3)."""
    clusters = len(centres)
    points, centres = tack.asarray(points), tack.asarray(centres, tack.i32)
    labels = tack.full(points.shape[0], -1, tack.i32)
    counts, sums = tack.zeros(clusters, tack.i32), tack.zeros((clusters, 3), tack.i64)
    moved = tack.zeros(1, tack.i32)
    for n in range(rounds):
        assign(points, centres, labels, counts, sums, moved)
        if moved[0] == 0:
            break
        update(centres, counts, sums, moved)
    return labels.numpy(), centres.numpy(), n


def kmeans_numpy(points: np.ndarray, centres: np.ndarray, rounds: int = 200) -> tuple[np.ndarray, np.ndarray, int]:
    """The same on whole arrays."""
    labels = np.full(len(points), -1)
    for n in range(rounds):
        apart = points[:, None, :].astype(np.int64) - centres[None]
        found = (apart**2).sum(2).argmin(1)
        if np.array_equal(found, labels):
            break
        labels = found
        centres = np.array(
            [
                points[labels == k].sum(0) // np.sum(labels == k) if k in labels else centre
                for k, centre in enumerate(centres)
            ]
        )
    return labels, centres, n


def inertia(points: np.ndarray, labels: np.ndarray, centres: np.ndarray) -> int:
    """The sum of squared distances from each point to its centre."""
    return int(((points.astype(np.int64) - centres[labels]) ** 2).sum())


def check() -> str:
    """Labels, centres and rounds equal NumPy's on points around five centres, an empty cluster included."""
    random = np.random.default_rng(3)
    middles = random.integers(40, 215, (5, 3))
    points = np.clip(random.normal(np.repeat(middles, 40, 0), 25), 0, 255).astype(np.uint8)
    start = np.vstack([points[random.choice(200, 6, replace=False)], [[-900, -900, -900]]]).astype(np.int64)
    ours, theirs = kmeans(points, start), kmeans_numpy(points, start)
    assert all(np.array_equal(a, b) for a, b in zip(ours, theirs, strict=True))
    before = inertia(points, kmeans_numpy(points, start, 1)[0], start)
    after = inertia(points, *ours[:2])
    assert after < before
    return f"{ours[2]} rounds on 200 points equal NumPy's; inertia fell from {before} to {after}"


def spread_out(points: np.ndarray, clusters: int) -> np.ndarray:
    """Starting centres: each as far as can be from those before it, among a thousand points."""
    some = points[:: max(len(points) // 1000, 1)].astype(np.int64)
    centres = [some.mean(0).astype(np.int64)]
    while len(centres) < clusters:
        apart = ((some[:, None] - np.array(centres)[None]) ** 2).sum(2).min(1)
        centres.append(some[apart.argmax()])
    return np.array(centres)


def main() -> None:
    print(check())
    with cbook.get_sample_data("grace_hopper.jpg") as file:
        picture = pyplot.imread(file)
    points = picture.reshape(-1, 3)
    panels = pyplot.subplots(1, 4, figsize=(11, 3.7), layout="constrained")[1]
    panels[0].imshow(picture)
    panels[0].set(title=f"{len(np.unique(points, axis=0)):,} colours", xticks=[], yticks=[])
    for axes, clusters in zip(panels[1:], (16, 8, 4), strict=True):
        labels, centres, rounds = kmeans(points, spread_out(points, clusters))
        axes.imshow(centres[labels].reshape(picture.shape).astype(np.uint8))
        axes.set(title=f"{clusters} colours, {rounds} rounds", xticks=[], yticks=[])
        order = np.argsort(centres.sum(1))
        palette = axes.inset_axes((0, -0.1, 1, 0.08))
        palette.imshow(centres[order][None].astype(np.uint8), aspect="auto")
        palette.axis("off")
    save(panels[0], "kmeans")


if __name__ == "__main__":
    main()
