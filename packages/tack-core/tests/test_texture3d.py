"""`tack.texture3d`: sampling beside a trilinear oracle in f64, snapshots, ways into kernels (rules TEX-*)."""

from __future__ import annotations

import numpy as np
import pytest

import tack


def trilinear(texels, u, v, w):
    """The value in f64: `texels` has the shape (D, H, W); nothing here comes from Tack."""
    out = np.zeros(np.shape(u))
    places = []
    for coordinate, extent in ((w, texels.shape[0]), (v, texels.shape[1]), (u, texels.shape[2])):
        among = np.clip(np.asarray(coordinate, np.float64) * extent - 0.5, 0, extent - 1)
        low = np.minimum(among.astype(int), max(extent - 2, 0))
        places.append((low, np.minimum(low + 1, extent - 1), among - low))
    for corner in np.ndindex(2, 2, 2):
        index = tuple(place[bit] for place, bit in zip(places, corner, strict=True))
        weight = np.prod([t if bit else 1 - t for (_, _, t), bit in zip(places, corner, strict=True)], axis=0)
        out += weight * texels[index].astype(np.float64)
    return out


def tolerance(device, texels):
    """TEX-2: what the value may be off by; a sampler's weights, one an axis, within 1/256."""
    weights = 3 / 256 if device.supports("texture_images") else 0
    return 2e-5 + weights * np.ptp(np.asarray(texels, np.float64))


@tack.kernel
def sample_at(tex, u, v, w, out):
    for i in range(out.shape[0]):
        out[i] = tex.sample(u[i], v[i], w[i])


def sampled(tex, u, v, w, dtype=np.float32):
    """What a kernel samples at these points."""
    out = tack.zeros(len(u), tack.f32)
    sample_at(tex, *(tack.asarray(np.asarray(c, dtype)) for c in (u, v, w)), out)
    return out.numpy()


def points(rng, count):
    """Points in and around the unit cube, that f32 holds."""
    return [rng.uniform(-0.3, 1.3, count).astype(np.float32) for _ in range(3)]


class TestSampling:
    @pytest.mark.parametrize("shape", [(8, 8, 8), (5, 3, 2), (1, 1, 1), (1, 4, 1), (7, 1, 3), (2, 2, 64)])
    def test_beside_the_oracle(self, device, shape):
        """TEX-2: trilinear between centres at (i + 1/2) / W, clamped to the edge."""
        rng = np.random.default_rng(sum(shape))
        texels = rng.normal(size=shape[::-1]).astype(np.float32)
        u, v, w = points(rng, 200)
        got = sampled(tack.texture3d(texels, shape), u, v, w)
        np.testing.assert_allclose(got, trilinear(texels, u, v, w), atol=tolerance(device, texels))

    def test_the_oracle_notices_other_conventions(self, device):
        """TEX-2: texels at corners, x slowest, or wrapping would fail."""
        rng = np.random.default_rng(5)
        texels = rng.normal(size=(4, 4, 4)).astype(np.float32)
        u, v, w = points(rng, 200)
        got = sampled(tack.texture3d(texels, (4, 4, 4)), u, v, w)
        assert np.abs(got - trilinear(texels, w, v, u)).max() > 0.1
        assert np.abs(got - trilinear(texels, u + 0.125, v, w)).max() > 0.1
        assert np.abs(got - trilinear(texels, u % 1, v, w)).max() > 0.1

    def test_texel_centres_are_exact(self, device):
        """TEX-2: at a centre the value is the texel, bit by bit, where f32 holds the centre."""
        texels = np.random.default_rng(1).normal(size=(2, 4, 8)).astype(np.float32)
        z, y, x = np.indices(texels.shape).reshape(3, -1)
        got = sampled(tack.texture3d(texels, (8, 4, 2)), (x + 0.5) / 8, (y + 0.5) / 4, (z + 0.5) / 2)
        assert got.tolist() == texels.ravel().tolist()

    @pytest.mark.parametrize("other", [np.inf, -np.inf, np.nan])
    @pytest.mark.parametrize("axis", [0, 1, 2])
    def test_at_a_centre_the_other_texels_do_not_count(self, device, axis, other):
        """TEX-2: at a centre, and beyond the outermost ones, an infinity or NaN next to it changes nothing."""
        shape = [1, 1, 1]
        shape[axis] = 4
        tex = tack.texture3d(np.array([-0.0, other, 7.0, other]), shape)
        along = [-1.0, 0.0, 0.125, 0.625, 0.75]
        places = [[0.5] * len(along) for _ in range(3)]
        places[axis] = along
        got = sampled(tex, *places)
        assert got.tolist()[:4] == [0.0, 0.0, 0.0, 7.0]
        assert np.signbit(got[:3]).all()
        assert not np.isfinite(got[4])

    def test_clamping_and_nan(self, device):
        """TEX-2, TEX-3: outside, at the infinities and at a NaN nothing but edge texels is read."""
        tex = tack.texture3d(np.arange(3, dtype=np.float32), (3, 1, 1))
        u = [-np.inf, -5.0, 0.0, 1 / 6, 0.5, 1.0, 7.0, 1e30, np.inf, np.nan]
        got = sampled(tex, u, [0.5] * len(u), [np.nan] * len(u))
        np.testing.assert_allclose(got, [0, 0, 0, 0, 1, 2, 2, 2, 2, 0], atol=1e-6)

    def test_types_of_coordinates(self, device):
        """TEX-3: coordinates of any number type convert to f32, and the value is f32."""

        @tack.kernel
        def run(tex, x, out):
            for _ in range(1):
                out[0] = tex.sample(x[0], 0, True) + 0.1

        tex = tack.texture3d(np.asarray([1.0, 3.0]), (2, 1, 1))
        out = tack.zeros(1, tack.f64)
        run(tex, tack.asarray([0.6], tack.f64), out)
        assert out[0] == pytest.approx(2.5, abs=tolerance(device, [1.0, 3.0]))
        assert "sample" in tack.inspect(run, tex, tack.asarray([0.6], tack.f64), out)["typed"]
        run(tex, tack.asarray([1], tack.i8), out)
        assert out[0] == float(np.float32(3) + np.float32(0.1))


def test_a_texture_of_another_device_is_named_as_one():
    """PAR-7: the message says what the user wrote, not what a texture is made of."""
    tex = tack.texture3d(np.zeros(8), (2, 2, 2), device="cpu")
    out = tack.zeros(1, device="reference")
    u = tack.zeros(1, device="reference")
    with pytest.raises(ValueError, match="parameter `out` was given an array on device reference"):
        sample_at(tex, tack.zeros(1, device="cpu"), tack.zeros(1, device="cpu"), tack.zeros(1, device="cpu"), out)
    with pytest.raises(ValueError, match="parameter `tex` was given a texture on device cpu"):
        store_and_sample(out, tex, u)


@tack.kernel
def store_and_sample(out, tex, u):
    for i in range(out.shape[0]):
        out[i] = tex.sample(u[i], 0.5, 0.5)


class TestSnapshots:
    @pytest.mark.parametrize("shape", [(24,), (2, 12), (2, 3, 4), (1, 24, 1, 1)])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.int64])
    def test_any_shape_and_dtype_of_the_source(self, device, shape, dtype):
        """TEX-1: the elements in C order, x fastest, as f32."""
        values = np.arange(24).astype(dtype)
        tex = tack.texture3d(values.reshape(shape), (4, 3, 2))
        z, y, x = np.indices((2, 3, 4)).reshape(3, -1)
        got = sampled(tex, (x + 0.5) / 4, (y + 0.5) / 3, (z + 0.5) / 2)
        np.testing.assert_allclose(got, np.arange(24), rtol=1e-6, atol=1e-5)
        assert tex.shape == (4, 3, 2)

    def test_a_snapshot_until_update(self, device):
        """TEX-1: a store to the source is seen after `update()`, not before."""
        source = tack.zeros((2, 2, 2), tack.f32)
        tex = tack.texture3d(source, shape=(2, 2, 2))
        source.fill(5)
        assert sampled(tex, [0.5], [0.5], [0.5]).tolist() == [0.0]
        tex.update()
        assert sampled(tex, [0.5], [0.5], [0.5]).tolist() == [5.0]
        assert tex.device == source.device == device

    def test_a_kernel_may_store_to_the_source_that_it_samples(self, device):
        """TEX-1: the snapshot is memory of its own."""

        @tack.kernel
        def shift(tex, source):
            for i in range(4):
                source[i] = tex.sample((i + 1.5) / 4, 0.5, 0.5)

        source = tack.asarray([1, 2, 3, 4], tack.f32)
        tex = tack.texture3d(source, (4, 1, 1))
        for expected in ([2, 3, 4, 4], [2, 3, 4, 4]):
            shift(tex, source)
            assert source.numpy().tolist() == expected
        tex.update()
        shift(tex, source)
        assert source.numpy().tolist() == [3, 4, 4, 4]

    @pytest.mark.parametrize(
        ("values", "shape", "kind", "words"),
        [
            (np.zeros(7), (2, 2, 2), ValueError, "7 elements.*takes 8"),
            (np.zeros(9), (2, 2, 2), ValueError, "9 elements.*takes 8"),
            (np.zeros(0), (0, 2, 2), ValueError, "positive"),
            (np.zeros(8), (-2, -2, 2), ValueError, "positive"),
            (np.zeros(8), (4, 2), TypeError, "three integers"),
            (np.zeros(8), (2.0, 2, 2), TypeError, "three integers"),
            (np.zeros(8), 8, TypeError, "three integers"),
            (np.zeros(8, complex), (2, 2, 2), TypeError, "real numbers"),
            (["a"] * 8, (2, 2, 2), TypeError, "real numbers"),
        ],
    )
    def test_refused(self, device, values, shape, kind, words):
        """TEX-1."""
        with pytest.raises(kind, match=words):
            tack.texture3d(values, shape)

    def test_an_update_from_a_source_of_another_size(self, device):
        """TEX-1."""
        source = [1.0, 2.0]
        tex = tack.texture3d(source, (2, 1, 1))
        source.append(3.0)
        with pytest.raises(ValueError, match="3 elements"):
            tex.update()


class TestWaysIn:
    def test_through_device_functions(self, device):
        """TEX-4: at any depth, by position and keyword; two textures of different sizes share the code."""

        @tack.func
        def inner(t, x):
            return t.sample(x, 0.5, 0.5)

        @tack.func
        def outer(scale, volume):
            return scale * inner(t=volume, x=0.5)

        @tack.kernel
        def run(a, b, out):
            for _ in range(1):
                out[0] = outer(10.0, a) + outer(1.0, volume=b)

        small = tack.texture3d([3.0], (1, 1, 1))
        large = tack.texture3d(np.full(60, 4.0), (3, 4, 5))
        out = tack.zeros(1, tack.f32)
        run(small, large, out)
        assert out[0] == pytest.approx(34.0, abs=1e-5)
        run(large, small, out)
        assert out[0] == pytest.approx(43.0, abs=1e-5)

    def test_as_a_field(self, device):
        """TEX-4: as an attribute of an instance of a data-oriented class."""

        @tack.data_oriented
        class Volume:
            STEP = 0.25

            def __init__(self, texture):
                self.texture = texture
                self.out = tack.zeros(4, tack.f32)

            @tack.kernel
            def march(self):
                for i in range(4):
                    self.out[i] = self.texture.sample((i + 0.5) * self.STEP, 0.5, 0.5)

        values = np.asarray([1, 5, 2, 8], np.float32)
        volume = Volume(tack.texture3d(values, (4, 1, 1)))
        volume.march()
        assert volume.out.numpy().tolist() == values.tolist()
        volume.texture = tack.texture3d(values[::-1].copy(), (1, 1, 4))
        volume.march()
        np.testing.assert_allclose(volume.out.numpy(), [5.0 * 0.5 + 2 * 0.5] * 4)

    def test_refused_in_kernels(self, device):
        """TEX-4: textures are neither captured nor indexed, and an array is no texture."""
        tex = tack.texture3d([1.0], (1, 1, 1))
        out = tack.zeros(1, tack.f32)

        @tack.kernel
        def captured(out):
            for _ in range(1):
                out[0] = tex.sample(0, 0, 0)

        with pytest.raises(TypeError, match=r"`tex` is an instance of Texture3D(.|\n)*as an argument"):
            captured(out)

        @tack.kernel
        def indexed(t, out):
            for _ in range(1):
                out[0] = t[0]

        with pytest.raises(TypeError, match="instance of Texture3D"):
            indexed(tex, out)
        with pytest.raises(tack.UnsupportedSyntaxError, match="sample"):
            sample_at(out, out, out, out, out)
        with pytest.raises(TypeError, match="only inside a kernel"):
            tex.sample(0, 0, 0)

    def test_a_texture_of_another_device(self):
        """TEX-4, PAR-7: all arguments of a call are on one device."""
        with tack.device("reference"):
            tex = tack.texture3d([1.0], (1, 1, 1))
        u = tack.zeros(1, tack.f32, device="cpu")
        with pytest.raises(ValueError, match="reference"):
            sample_at(tex, u, u, u, u)
        assert repr(tex) == "<tack.Texture3D (1, 1, 1) f32 on reference>"
