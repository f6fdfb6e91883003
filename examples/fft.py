"""The fast Fourier transform as kernels (Stockham, radix 2), beside NumPy's; blurs a picture and draws ``out/fft.png``.

Rows are transformed all at once: every iteration is one butterfly of one row. Stockham's ordering needs no reversal
of bits: each pass reads one array and writes the other, and the result comes out sorted.
"""

from __future__ import annotations

import math

import numpy as np
from common import save
from matplotlib import pyplot

import tack

Complex = tack.vec(2, tack.f64)  # real and imaginary part


@tack.func
def times(a, b):
    """The product of two complex numbers."""
    return [a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x]


@tack.kernel
def twiddles(table, sign):
    """Set table[k] = exp(sign * 2 pi i k / n) for the first half of the circle."""
    for k in range(table.shape[0]):
        angle = sign * math.pi * tack.f64(k) / tack.f64(table.shape[0])
        table[k] = [math.cos(angle), math.sin(angle)]


@tack.kernel
def butterflies(a, b, table, length):
    """One pass over all rows: two transforms of `length` elements, interleaved, make one of twice that."""
    for row, j in tack.ndrange(a.shape[0], a.shape[1] // 2):
        half = a.shape[1] // 2
        block, k = j // length, j % length
        even = a[row, j]
        odd = times(a[row, j + half], table[k * (half // length)])
        b[row, 2 * block * length + k] = even + odd
        b[row, 2 * block * length + k + length] = even - odd


@tack.kernel
def turn(a, b, factor):
    """Set b = the transpose of a, scaled."""
    for y, x in tack.ndrange(b.shape[0], b.shape[1]):
        b[y, x] = a[x, y] * factor


@tack.kernel
def multiply(a, b):
    for y, x in tack.ndrange(a.shape[0], a.shape[1]):
        a[y, x] = times(a[y, x], b[y, x])


def fft_rows(a: tack.Array, inverse: bool = False) -> tack.Array:
    """The transform of each row; the number of columns is a power of two. `a` is used up."""
    columns = a.shape[1]
    if columns & (columns - 1):
        raise ValueError(f"the number of columns must be a power of two, and is {columns}")
    table = tack.zeros(max(columns // 2, 1), Complex)
    twiddles(table, 1.0 if inverse else -1.0)
    b = tack.empty_like(a)
    length = 1
    while length < columns:
        butterflies(a, b, table, length)
        a, b = b, a
        length *= 2
    return a


def fft2(a: tack.Array, inverse: bool = False) -> tack.Array:
    """The transform in both directions; the inverse is divided by the number of elements, as in NumPy."""
    for columns in a.shape[1], a.shape[0]:
        a = fft_rows(a, inverse)
        turned = tack.empty(a.shape[::-1], Complex)
        turn(a, turned, 1.0 / columns if inverse else 1.0)
        a = turned
    return a


# --------------------------------------------------------------------------------------------------- check and draw


def asarray(values: np.ndarray) -> tack.Array:
    """A NumPy array of complex numbers on the device."""
    return tack.asarray(np.stack([values.real, values.imag], axis=-1), Complex)


def complex_numbers(a: tack.Array) -> np.ndarray:
    parts = a.numpy()
    return parts[..., 0] + 1j * parts[..., 1]


def check() -> str:
    """Compare with numpy.fft for several sizes, and forth and back with the start: relative error below 1e-14."""
    random = np.random.default_rng(5)
    worst = 0.0
    for shape in (1, 1), (3, 2), (2, 64), (16, 32), (64, 8):
        values = random.normal(size=shape) + 1j * random.normal(size=shape)
        pairs = [(complex_numbers(fft_rows(asarray(values))), np.fft.fft(values))]
        if shape[0] & (shape[0] - 1) == 0:
            pairs.append((complex_numbers(fft2(asarray(values))), np.fft.fft2(values)))
            pairs.append((complex_numbers(fft2(fft2(asarray(values)), inverse=True)), values))
        worst = max(worst, *(float(np.abs(ours - theirs).max() / np.abs(theirs).max()) for ours, theirs in pairs))
    assert worst < 1e-14
    return f"transforms in one and two directions equal numpy.fft's within {worst:.1e}"


def aperture(n: int) -> np.ndarray:
    """A telescope's round mirror, with the shadow of the second mirror and of the four arms that hold it."""
    y, x = np.mgrid[:n, :n] - n / 2 + 0.5
    far = np.hypot(x, y)
    ring = (far < n / 10) & (far > n / 38)
    return np.where(ring & (np.abs(x) > n / 400) & (np.abs(y) > n / 400), 1.0, 0.0)


def starfield(n: int) -> np.ndarray:
    """Some stars of very different brightness, and two close to each other."""
    random = np.random.default_rng(11)
    sky = np.zeros((n, n))
    for y, x, light in zip(*random.integers(0, n, (2, 90)), random.pareto(0.9, 90) + 0.05, strict=True):
        sky[y, x] = light
    sky[n // 2, n // 2 - 4] = sky[n // 2 + 4, n // 2 + 4] = 20
    return sky


def main() -> None:
    print(check())
    n = 512
    mirror, sky = aperture(n), starfield(n)
    # Light of a point falls as the squared magnitude of the aperture's transform; every star is spread by it.
    spread = np.abs(complex_numbers(fft2(asarray(mirror)))) ** 2
    transfer = fft2(asarray(spread / spread.sum()))
    image = fft2(asarray(sky))
    multiply(image, transfer)
    seen = complex_numbers(fft2(image, inverse=True)).real
    panels = pyplot.subplots(1, 3, figsize=(12, 4.4), layout="constrained")[1]
    pictures = {
        "Aperture of a telescope": mirror,
        "Image of one star (logarithmic)": np.log10(np.fft.fftshift(spread / spread.max()) + 1e-6),
        "Image of a star field": np.log10(np.maximum(seen, 0) + 1e-4),
    }
    for axes, (title, picture) in zip(panels, pictures.items(), strict=True):
        axes.imshow(picture, cmap="inferno" if axes is not panels[0] else "gray")
        axes.set(title=title, xticks=[], yticks=[])
    save(panels[0], "fft")


if __name__ == "__main__":
    main()
