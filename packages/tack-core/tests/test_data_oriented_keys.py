"""Data-oriented classes: what is keyed, frequent calls, and how long variants live (rules CLS-*)."""

from __future__ import annotations

import gc
import threading
import weakref

import numpy as np
import pytest

import tack
from class_rig import Oscillator, lowerings, stepped, variants
from tack.lang.data_oriented import record_of


class TestKeys:
    def test_class_constants_are_literals_of_their_current_value(self, device):
        """CLS-2, CAP-5, CAP-7: by value, type and bits, checked at each call."""

        @tack.data_oriented
        class Constants:
            N = 7

            def __init__(self, dtype):
                self.out = tack.zeros(1, dtype)

            @tack.kernel
            def run(self):
                for _ in range(1):
                    self.out[0] = self.N / 2

        c = Constants(tack.f64)
        results = []
        for value in (7, 7.5, -0.0, 0.0, 0.1, 7):
            Constants.N = value
            c.run()
            results.append(c.out[0])
        assert results[:2] == [3.5, 3.75] and results[5] == 3.5
        assert np.signbit(results[2]) and not np.signbit(results[3])
        assert results[4] == 0.05  # a literal, so f64 as the store is; an f32 quotient would be 0.05000000074505806
        assert lowerings(Constants) == 5

    def test_constants_size_local_arrays_and_tables(self, device):
        """CLS-2: class numbers are constants where constants are needed; class tuples are tables."""

        @tack.data_oriented
        class Stencil:
            WIDTH = 3
            WEIGHTS = (1, 2, 1)

            def __init__(self):
                self.out = tack.zeros(1, tack.i32)

            @tack.kernel
            def run(self):
                for _ in range(1):
                    window = tack.local(self.WIDTH, tack.i32)
                    total = 0
                    for k in range(self.WIDTH):
                        window[k] = 10 * k
                        total += window[k] * self.WEIGHTS[k]
                    self.out[0] = total

        s = Stencil()
        s.run()
        assert s.out[0] == 40

    def test_an_instance_that_hides_a_constant(self, device):
        """CLS-2, CLS-3: a number that the instance holds under the name of a class constant is its own."""

        @tack.data_oriented
        class Hidden:
            N = 1

            @tack.kernel
            def run(self, out):
                for _ in range(1):
                    out[0] = self.N

        out = tack.zeros(1, tack.i32)
        plain, own = Hidden(), Hidden()
        own.N = 5
        seen = []
        for h in (plain, own, plain):
            h.run(out)
            seen.append(out[0])
        own.N = 6
        own.run(out)
        seen.append(out[0])
        del own.N
        own.run(out)
        assert [*seen, out[0]] == [1, 5, 1, 6, 1]
        assert lowerings(Hidden) == 2

    def test_instances_of_one_class_share_code(self, device):
        """CLS-7: and a method that is rebound is seen at the next call (CAP-11)."""

        @tack.data_oriented
        class Shared:
            def __init__(self, k):
                self.k, self.out = k, tack.zeros(1, tack.f32)

            @tack.func
            def f(self):
                return self.k

            @tack.kernel
            def run(self):
                for _ in range(1):
                    self.out[0] = self.f()

        many = [Shared(k) for k in (1.0, 2.0, 3.0)]
        for s in many:
            s.run()
        assert [s.out[0] for s in many] == [1.0, 2.0, 3.0]
        assert lowerings(Shared) == variants(Shared) == 1

        @tack.func
        def other(self):
            return self.k * 100

        Shared.f = other
        many[1].run()
        assert many[1].out[0] == 200.0

    def test_a_field_that_changes_its_kind(self, device):
        """CLS-7: number, array, instance: each is typed anew, and none is taken for another."""

        @tack.data_oriented
        class Inner:
            def __init__(self):
                self.v = 3.0

        @tack.data_oriented
        class Outer:
            def __init__(self, field):
                self.field = field

        @tack.kernel
        def through(o, out):
            for _ in range(1):
                out[0] = o.field.v

        out = tack.zeros(1, tack.f32)
        through(Outer(Inner()), out)
        assert out[0] == 3.0
        with pytest.raises(tack.UnsupportedSyntaxError, match="v"):
            through(Outer(4.0), out)

        @tack.kernel
        def number(o, out):
            for _ in range(1):
                out[0] = o.field

        number(Outer(4.0), out)
        assert out[0] == 4.0
        number(Outer(tack.f64(0.5)), out)
        assert out[0] == 0.5
        with pytest.raises(TypeError, match="array"):
            number(Outer(tack.zeros(1, tack.f32)), out)
        with pytest.raises(TypeError, match="instance of Inner"):
            number(Outer(Inner()), out)


class TestManyCalls:
    """CLS-7, SPEC-1: once calls are frequent, a native entry takes them; nothing else changes."""

    def test_everything_that_may_change_between_calls(self, device):
        @tack.data_oriented
        class Many:
            K = 1

            def __init__(self):
                self.n, self.k = 4, 2.0
                self.x, self.y = tack.zeros(4, tack.f32), tack.ones(4, tack.f32)

            @tack.func
            def f(self, x):
                return x * self.k + self.K

            @tack.kernel
            def run(self, dt, extra=0):
                for i in range(self.n):
                    self.x[i] = self.f(self.y[i]) + dt + extra
                return self.n

        m = Many()
        for call in range(30):
            m.k = float(call)
            assert m.run(0.5) == 4
            assert m.x.numpy().tolist() == [call + 1.5] * 4
        Many.K = 5
        m.run(0.5)
        assert m.x[0] == 29 + 5.5
        m.K = 7
        m.run(0.5, extra=100)
        assert m.x[0] == 29 + 107.5
        del m.K
        m.k = tack.f64(0.25)
        m.run(0.5)
        assert m.x[0] == 0.25 + 5.5
        m.k, m.n = 3, 2
        m.x = m.y  # in place
        m.run(1)
        assert m.y.numpy().tolist() == [9.0, 9.0, 1.0, 1.0]
        m.x = tack.zeros(4, tack.f64)
        m.run(0.5)
        assert m.x[0] == 9 * 3 + 5.5
        m.x = "text"
        with pytest.raises(TypeError, match=r"`self\.x` was given 'text'"):
            m.run(0.5)
        m.x, m.k = tack.zeros(4, tack.f32), 1e300
        with pytest.raises(ValueError, match=r"`self\.k`(.|\n)*f32"):
            m.run(0.5)
        m.k, m.n = 1.0, 1 << 70
        with pytest.raises(TypeError, match=r"`self\.n` was given"):
            m.run(0.5)

    def test_from_several_threads(self, device):
        """CALL-3."""
        systems = [Oscillator(50, float(k)) for k in range(4)]

        def work(system):
            for _ in range(30):
                system.step(0.01)

        threads = [threading.Thread(target=work, args=(system,)) for system in systems]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for k, system in enumerate(systems):
            x, _ = stepped(50, k, 0.5, 0.01, 30)
            np.testing.assert_allclose(system.x.numpy(), x, rtol=1e-5)


class TestLifetime:
    def test_a_collected_class_releases_its_variants(self, device):
        """CLS-7: also those of kernels and device functions that outlive it, and of kernels given two classes."""

        @tack.func
        def shared(item):
            return item.v

        @tack.kernel
        def outlives(item, out):
            for _ in range(1):
                out[0] = shared(item)

        @tack.kernel
        def two(a, b, out):
            for _ in range(1):
                out[0] = a.v + b.v

        def make():
            @tack.data_oriented
            class Short:
                K = 2

                def __init__(self):
                    self.v = 1.0
                    self.out = tack.zeros(1, tack.f32)

                @tack.func
                def f(self):
                    return self.v * self.K

                @tack.kernel
                def own(self):
                    for _ in range(1):
                        self.out[0] = self.f() + Short.K

            return Short

        out = tack.zeros(1, tack.f32)

        def used(keep):
            cls = make()
            item = cls()
            for _ in range(20):  # often enough for native calls
                item.own()
                outlives(item, out)
            assert item.out[0] == 4.0
            two(item, keep(), out)
            two(keep(), item, out)
            return weakref.ref(cls), weakref.ref(record_of(cls).variants[outlives][0])

        kept = make()
        refs = [used(kept) for _ in range(3)]
        gc.collect()
        assert [(cls(), code()) for cls, code in refs] == [(None, None)] * 3
        assert lowerings(kept) == 0

    def test_a_collected_kernel_releases_its_variants(self, device):
        """CLS-7: the class does not keep kernels alive."""

        def run():
            @tack.kernel
            def short(o, out):
                for i in range(o.n):
                    out[i] = o.stiffness

            out = tack.zeros(2, tack.f32)
            short(Oscillator(2, 3.0), out)
            assert out.numpy().tolist() == [3.0, 3.0]
            return weakref.ref(short)

        before = lowerings(Oscillator)
        ref = run()
        gc.collect()
        assert ref() is None and lowerings(Oscillator) == before

    def test_inspect_of_a_method(self, device):
        """CLS-1: `tack.inspect(obj.step, dt)`, with and without the arguments."""
        o = Oscillator(2, 1.0)
        assert "self.stiffness: f32" in tack.inspect(o.step, 0.5)["typed"]
        assert set(tack.inspect(o.step)) == {"source", "ast", "ir"}
