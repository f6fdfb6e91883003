"""Textures through images of OpenCL, which devices with samplers of their own get (rules TEX-2, TEX-3).

The processors' drivers have images too, emulated and slower than the software, so they do not use them by themselves;
here they are made to.
"""

from __future__ import annotations

import numpy as np
import pytest

import tack
from test_texture3d import points, trilinear

cl = pytest.importorskip("pyopencl", reason="pyopencl is not installed", exc_type=ImportError)

WEIGHT = 1 / 256  # rule TEX-2, an axis
DEVICES = [name for name in tack.devices() if name.startswith("opencl")]
pytestmark = pytest.mark.skipif(not DEVICES, reason="no OpenCL device")


@pytest.fixture(params=DEVICES)
def imaging(request, monkeypatch):
    """A device that uses its images."""
    target = tack.device(request.param)
    if not target.backend.device.image_support:
        pytest.skip(f"device {target.name} has no images")
    monkeypatch.setattr(target.backend, "capabilities", target.backend.capabilities | {"texture_images"})
    with target:
        yield target


def sampler():
    """A kernel of its own, for no other test may have compiled it without images."""

    @tack.func
    def inner(t, x, y, z):
        return t.sample(z, y, x)

    @tack.kernel
    def sample_at(tex, u, v, w, out):
        for i in range(out.shape[0]):
            out[i] = inner(tex, w[i], v[i], u[i])

    return sample_at


def sampled(kernel, tex, u, v, w):
    out = tack.zeros(len(u), tack.f32)
    kernel(tex, *(tack.asarray(np.asarray(c, np.float32)) for c in (u, v, w)), out)
    return out.numpy()


def buffer_of(tex):
    return tex.device.backend._stream.buffers.find(tex._texels._data)[0]


def overwrite(tex, value):
    """Fill the array of texels behind the texture's back: only the image still has the snapshot."""
    queue = tex.device.backend._stream.queue
    cl.enqueue_fill_buffer(queue, buffer_of(tex), np.float32(value), 0, tex._texels.nbytes)


@pytest.mark.parametrize("shape", [(8, 8, 8), (5, 3, 2), (1, 1, 1), (1, 4, 1), (7, 1, 3), (2, 2, 64)])
def test_beside_the_oracle(imaging, shape):
    """TEX-2: within 1/256 of a texel's weight an axis; the image is what is sampled."""
    rng = np.random.default_rng(sum(shape))
    texels = rng.normal(size=shape[::-1]).astype(np.float32)
    tex, kernel = tack.texture3d(texels, shape), sampler()
    u, v, w = points(rng, 200)
    for filler in (None, 1e6):
        if filler is not None:
            overwrite(tex, filler)
        got, want = sampled(kernel, tex, u, v, w), trilinear(texels, u, v, w)
        np.testing.assert_allclose(got, want, atol=3 * WEIGHT * np.ptp(texels) + 2e-5)
    if shape == (8, 8, 8):
        assert np.abs(got - trilinear(texels, u + 0.0625, v, w)).max() > 3 * WEIGHT * np.ptp(texels)


def test_the_text_takes_an_image_for_each_texture(imaging):
    """Through a device function, and beside an array that is none."""

    @tack.kernel
    def both(a, b, data, out):
        for i in range(out.shape[0]):
            out[i] = a.sample(0.5, 0.5, 0.5) + b.sample(0.5, 0.5, 0.5) * data[0, 0, 0]

    a, b = (tack.texture3d(np.full(8, n), (2, 2, 2)) for n in (3.0, 10.0))
    data, out = tack.asarray(np.full((1, 1, 1), 2.0, np.float32)), tack.zeros(5)
    text = tack.inspect(both, a, b, data, out)["opencl"]
    kernel_line = next(line for line in text.splitlines() if line.startswith("__kernel"))
    assert kernel_line.count("image3d_t") == 2
    both(a, b, data, out)
    overwrite(a, 0)
    overwrite(b, 0)
    both(a, b, data, out)
    assert out.numpy().tolist() == [23.0] * 5


def test_texel_centres_are_exact(imaging):
    """TEX-2: at a centre the value is the texel."""
    texels = np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)
    z, y, x = np.indices(texels.shape).reshape(3, -1)
    tex = tack.texture3d(texels, (8, 4, 2))
    got = sampled(sampler(), tex, (x + 0.5) / 8, (y + 0.5) / 4, (z + 0.5) / 2)
    assert got.tolist() == texels.ravel().tolist()


@pytest.mark.parametrize("other", [np.inf, np.nan])
def test_what_has_no_weight_does_not_count(imaging, other):
    """TEX-2, TEX-3: next to an infinity or NaN, which a sampler multiplies by zero, the software answers."""
    tex = tack.texture3d(np.array([1.0, other, 7.0, other]), (4, 1, 1))
    u = [-np.inf, 0.0, 0.125, 0.625, 0.75, np.nan]
    got = sampled(sampler(), tex, u, [0.5] * len(u), [np.nan] * len(u))
    assert got[[0, 1, 2, 3, 5]].tolist() == [1.0, 1.0, 1.0, 7.0, 1.0]
    assert not np.isfinite(got[4])


def test_an_update_is_sampled(imaging):
    """TEX-1: the image is made again when the host has stored to the texels, and only then."""
    source = np.zeros(8, np.float32)
    tex, kernel = tack.texture3d(source, (2, 2, 2)), sampler()
    middle = [[0.5]] * 3
    assert sampled(kernel, tex, *middle) == [0.0]
    source[:] = 5
    assert sampled(kernel, tex, *middle) == [0.0]
    tex.update()
    assert sampled(kernel, tex, *middle) == [5.0]


def test_a_texture_that_the_device_makes_no_image_of(imaging, monkeypatch):
    """TEX-2: the software answers, exactly."""
    limits = type(imaging.backend._stream.buffers)
    monkeypatch.setattr(limits, "_make_image", lambda *_: None)
    texels = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    tex = tack.texture3d(texels, (4, 3, 2))
    u, v, w = points(np.random.default_rng(3), 50)
    np.testing.assert_allclose(sampled(sampler(), tex, u, v, w), trilinear(texels, u, v, w), atol=2e-5)


def test_a_volume_too_long_for_an_image(imaging):
    """TEX-2: a driver that refuses an image leaves the software."""
    length = imaging.backend.device.image3d_max_width + 1
    tex = tack.texture3d(np.arange(length, dtype=np.float32), (length, 1, 1))
    got = sampled(sampler(), tex, [0.0, 1.0, 0.5], [0.5] * 3, [0.5] * 3)
    np.testing.assert_allclose(got, [0, length - 1, (length - 1) / 2], rtol=1e-6)


def test_processors_sample_in_software():
    """Their images are emulated."""
    for name in DEVICES:
        backend = tack.device(name).backend
        is_processor = bool(backend.device.type & cl.device_type.CPU)
        assert is_processor or not backend.device.image_support or "texture_images" in backend.capabilities
        assert not (is_processor and "texture_images" in backend.capabilities)
