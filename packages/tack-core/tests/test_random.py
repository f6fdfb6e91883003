"""`tack.random`: published vectors, a second Philox in Python integers, bits, statistics (rules RAND-*)."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tack
from kernel_text import run_text

R = tack.random

# The known answers for philox4x32 with 10 rounds that come with Random123: counter, key, result.
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0],
        [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
    ),
]
KINDS = {"uniform": 0, "uniform64": 1, "normal": 2, "normal64": 3, "randint": 4, "direction2": 5, "direction3": 6}
SEEDS = [0, 1, -1, 0xDEADBEEF12345678, 1 << 63]


def philox_words(counter, key, rounds=10):
    """Philox 4x32 in Python integers, from the paper."""
    c, k = list(counter), list(key)
    for _ in range(rounds):
        p, q = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [q >> 32 ^ c[1] ^ k[0], q & 0xFFFFFFFF, p >> 32 ^ c[3] ^ k[1], p & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def block_words(kind, seed, stream, draw, attempt=0):
    """The words of one draw (rule RAND-2), in Python integers."""
    n, i, k = draw % (1 << 52), stream % (1 << 64), seed % (1 << 64)
    c1 = n >> 32 | KINDS[kind] << 20 | attempt << 24
    return philox_words([n & 0xFFFFFFFF, c1, i & 0xFFFFFFFF, i >> 32], [k & 0xFFFFFFFF, k >> 32])


def unit53(low, high):
    return ((high << 32 | low) >> 11) / (1 << 53)


def oracle_uniform(seed, stream, draw):
    return (block_words("uniform", seed, stream, draw)[0] >> 8) / (1 << 24)


def oracle_uniform64(seed, stream, draw):
    return unit53(*block_words("uniform64", seed, stream, draw)[:2])


def oracle_normal(seed, stream, draw):
    a, b, _, _ = block_words("normal", seed, stream, draw)
    return math.sqrt(-2 * math.log((a + 0.5) / 2**32)) * math.cos(2 * math.pi * (b >> 8) / 2**24)


def oracle_normal64(seed, stream, draw):
    a, b, c, d = block_words("normal64", seed, stream, draw)
    return math.sqrt(-2 * math.log(unit53(a, b) + 2**-53)) * math.cos(2 * math.pi * unit53(c, d))


def oracle_randint(lo, hi, seed, stream, draw):
    bits = max(1, (hi - lo - 1).bit_length())
    for attempt in range(256):
        a, b, c, d = block_words("randint", seed, stream, draw, attempt)
        for value in ((b << 32 | a) >> 64 - bits, (d << 32 | c) >> 64 - bits):
            if value < hi - lo:
                return lo + value
    raise AssertionError("never")


@tack.kernel
def draws(seed, first, draw, u, v, n, m, e):
    for i in range(u.shape[0]):
        stream = i + first
        u[i] = tack.random.uniform(seed, stream, draw)
        v[i] = tack.random.uniform64(seed, stream, draw)
        n[i] = tack.random.normal(seed, stream, draw)
        m[i] = tack.random.normal64(seed, stream, draw)
        x, y, z = tack.random.direction3(seed, stream, draw)
        p, q = tack.random.direction2(seed, stream, draw)
        e[i, 0] = x
        e[i, 1] = y
        e[i, 2] = z
        e[i, 3] = p
        e[i, 4] = q


@tack.kernel
def integers(lo, hi, seed, draw, out):
    for i in range(out.shape[0]):
        out[i] = tack.random.randint(lo, hi, seed, i, draw)


@tack.kernel
def words(counter, out):
    for i in range(out.shape[0]):
        a, b, c, d = tack.random.philox(
            counter[i, 0], counter[i, 1], counter[i, 2], counter[i, 3], counter[i, 4], counter[i, 5]
        )
        out[i, 0] = a
        out[i, 1] = b
        out[i, 2] = c
        out[i, 3] = d


class TestPhilox:
    def test_known_answers(self, device):
        """RAND-1: the published vectors, on devices, on the host, and by this module's own Philox."""
        counters = tack.asarray(np.asarray([c + k for c, k, _ in KNOWN], np.uint32))
        out = tack.zeros((len(KNOWN), 4), tack.u32)
        words(counters, out)
        answers = [answer for _, _, answer in KNOWN]
        assert out.numpy().tolist() == answers
        assert [[int(w) for w in R.philox(*c, *k)] for c, k, _ in KNOWN] == answers
        assert [philox_words(c, k) for c, k, _ in KNOWN] == answers
        assert [philox_words(c, k, rounds=9) for c, k, _ in KNOWN] != answers

    def test_random_counters(self, device):
        """RAND-1: any counter and key."""
        counters = np.random.default_rng(3).integers(0, 1 << 32, (50, 6), dtype=np.uint64).astype(np.uint32)
        out = tack.zeros((50, 4), tack.u32)
        words(tack.asarray(counters), out)
        rows = counters.tolist()
        expected = [philox_words(row[:4], row[4:]) for row in rows]
        assert out.numpy().tolist() == expected
        assert np.stack(R.philox(*counters.T), axis=1).tolist() == expected


class TestDraws:
    @pytest.mark.parametrize("seed", SEEDS)
    @pytest.mark.parametrize("draw", [0, 5, 1 << 32, (1 << 52) - 1])
    def test_bits_on_every_device_and_the_host(self, device, seed, draw):
        """RAND-2, RAND-3: uniforms have their bits everywhere; what goes through log and cos is close."""
        count, first = 20, (1 << 32) - 10
        u, n = tack.zeros(count, tack.f32), tack.zeros(count, tack.f32)
        v, m, e = tack.zeros(count, tack.f64), tack.zeros(count, tack.f64), tack.zeros((count, 5), tack.f32)
        draws(seed, first, draw, u, v, n, m, e)
        streams = [first + i for i in range(count)]
        assert u.numpy().tolist() == [oracle_uniform(seed, i, draw) for i in streams]
        assert v.numpy().tolist() == [oracle_uniform64(seed, i, draw) for i in streams]
        np.testing.assert_allclose(n.numpy(), [oracle_normal(seed, i, draw) for i in streams], rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(m.numpy(), [oracle_normal64(seed, i, draw) for i in streams], rtol=1e-12, atol=1e-14)
        host = np.asarray(streams)
        assert R.uniform(seed, host, draw).tobytes() == u.numpy().tobytes()
        assert R.uniform64(seed, host, draw).tobytes() == v.numpy().tobytes()
        np.testing.assert_allclose(R.normal(seed, host, draw), n.numpy(), rtol=1e-5, atol=2e-6)
        np.testing.assert_allclose(R.normal64(seed, host, draw), m.numpy(), rtol=1e-12, atol=1e-14)
        both = [*R.direction3(seed, host, draw), *R.direction2(seed, host, draw)]
        np.testing.assert_allclose(np.stack(both, axis=1), e.numpy(), atol=1e-6)
        assert R.uniform(seed + 1, host, draw).tobytes() != u.numpy().tobytes()

    @pytest.mark.parametrize(
        ("lo", "hi"),
        [
            (0, 6),
            (-3, 4),
            (0, 1),
            (0, 2),
            (0, (1 << 31) + 1),
            (-(1 << 63), (1 << 63) - 1),
            (7, 7 + (1 << 40)),
            (0, 1 << 32),
        ],
    )
    def test_integers(self, device, lo, hi):
        """RAND-4: exactly those of the oracle, on devices and the host."""
        out = tack.zeros(30, tack.i64)
        integers(lo, hi, 11, 3, out)
        expected = [oracle_randint(lo, hi, 11, i, 3) for i in range(30)]
        assert out.numpy().tolist() == expected
        assert all(lo <= value < hi for value in expected)
        assert R.randint(lo, hi, 11, np.arange(30), 3).tolist() == expected
        assert int(R.randint(lo, hi, 11, 4, 3)) == expected[4]

    def test_defaults_and_keywords(self, device):
        """RAND-2: draw 0 is the default; the functions are device functions like any other (FUNC-1)."""

        @tack.kernel
        def run(out):
            for i in range(2):
                out[i] = tack.random.uniform(stream=i, seed=9)

        out = tack.zeros(2, tack.f32)
        run(out)
        assert out.numpy().tolist() == [oracle_uniform(9, i, 0) for i in range(2)]
        assert float(R.uniform(9, 1)) == out[1]

    def test_functions_do_not_share_draws(self):
        """RAND-2: draws of different functions with the same arguments are different words."""
        streams = np.arange(200)
        u, v = R.uniform(1, streams), R.uniform64(1, streams)
        assert np.abs(u - v).max() > 0.5
        assert len({tuple(block_words(kind, 1, 2, 3)) for kind in KINDS}) == len(KINDS)

    @pytest.mark.parametrize("bad", [1.5, "a", None, 1j])
    def test_what_is_no_integer(self, bad):
        """RAND-5: on the host."""
        for call in (lambda: R.uniform(bad, 0), lambda: R.uniform(0, bad), lambda: R.randint(0, 5, 0, 0, bad)):
            with pytest.raises(TypeError):
                call()
        with pytest.raises(ValueError, match="below"):
            R.randint(3, 3, 0, 0)


class TestStatistics:
    """RAND-3 and RAND-4, with fixed seeds: limits of six standard deviations, which no fair generator misses here."""

    COUNT = 100_000

    def test_uniform(self):
        for values in (R.uniform(1, np.arange(self.COUNT)), R.uniform64(1, 7, np.arange(self.COUNT))):
            assert 0 <= values.min() and values.max() < 1
            assert abs(values.mean(dtype=float) - 0.5) < 6 / math.sqrt(12 * self.COUNT)
            self.flat(np.floor(values * 64).astype(int), 64)
            self.flat((values * 2**24).astype(np.int64) % 16, 16)  # the low bits too
            self.uncorrelated(values)

    def test_normal(self):
        for values, most in ((R.normal(2, np.arange(self.COUNT)), 6.8), (R.normal64(2, np.arange(self.COUNT)), 8.6)):
            assert abs(values.mean(dtype=float)) < 6 / math.sqrt(self.COUNT)
            assert abs(values.var(dtype=float) - 1) < 6 * math.sqrt(2 / self.COUNT)
            assert abs((values.astype(float) ** 4).mean() - 3) < 6 * math.sqrt(96 / self.COUNT)
            assert np.abs(values).max() < most
            inside = np.mean(np.abs(values) < 1)
            assert abs(inside - math.erf(math.sqrt(0.5))) < 6 * math.sqrt(0.22 / self.COUNT)
            self.uncorrelated(values)

    @pytest.mark.parametrize("span", [2, 3, 6, 7, 100])
    def test_randint(self, span):
        values = R.randint(-1, span - 1, 3, np.arange(self.COUNT))
        self.flat(values + 1, span)

    def test_directions(self):
        x, y, z = (values.astype(float) for values in R.direction3(4, np.arange(self.COUNT)))
        np.testing.assert_allclose(x * x + y * y + z * z, 1, atol=1e-6)
        for values in (x, y, z):
            assert abs(values.mean()) < 6 / math.sqrt(3 * self.COUNT)
            self.flat(np.minimum(np.floor((values + 1) * 16).astype(int), 31), 32)  # Archimedes: every axis is uniform
        p, q = (values.astype(float) for values in R.direction2(4, np.arange(self.COUNT)))
        np.testing.assert_allclose(p * p + q * q, 1, atol=1e-6)
        self.flat(np.floor((np.arctan2(q, p) / (2 * np.pi) + 0.5) * 32).astype(int) % 32, 32)

    def flat(self, values, bins):
        """The chi-square of a flat histogram is near its mean."""
        assert self.chi_square(values, bins) < bins - 1 + 6 * math.sqrt(2 * bins)

    def chi_square(self, values, bins):
        counts = np.bincount(values, minlength=bins)
        assert len(counts) == bins
        return ((counts - len(values) / bins) ** 2).sum() / (len(values) / bins)

    def uncorrelated(self, values):
        centred = values.astype(float) - values.mean(dtype=float)
        for lag in (1, 2, 64):
            correlation = (centred[lag:] * centred[:-lag]).mean() / centred.var()
            assert abs(correlation) < 6 / math.sqrt(self.COUNT)

    def test_the_tests_notice_a_bias(self):
        """The negative control: a modulo of bytes, and a generator with a trend."""
        biased = np.random.default_rng(0).integers(0, 256, self.COUNT) % 100
        assert self.chi_square(biased, 100) > 99 + 6 * math.sqrt(200)
        with pytest.raises(AssertionError):
            self.uncorrelated(np.sort(R.uniform(1, np.arange(self.COUNT))))


@pytest.mark.parametrize(
    "call",
    ["uniform(x[i], 1)", "uniform(1, x[i])", "normal(1, 2, x[i])", "randint(x[i], 9, 1, i)", "randint(0, 6.5, 1, i)"],
)
def test_kernels_refuse_floats_as_the_host_does(device, call):
    """RAND-5: 0.2 and 0.7 would be one stream."""
    text = f"@tack.kernel\ndef k(x, out):\n    for i in range(1):\n        out[i] = tack.random.{call}\n"
    with pytest.raises(TypeError, match=r"takes integers, and this operand is f32(?s:.*)in kernel `k`"):
        run_text(text)["k"](tack.zeros(1), tack.zeros(1))
