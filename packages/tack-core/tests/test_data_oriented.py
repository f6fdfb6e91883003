"""Data-oriented classes: what members of instances mean, and what is refused (rules CLS-*)."""

from __future__ import annotations

import linecache
import re
import types
from dataclasses import dataclass

import numpy as np
import pytest

import tack
from class_rig import Oscillator, lowerings, stepped
from tack.lang.data_oriented import record_of


class TestMembers:
    def test_kernels_as_methods(self, device):
        """CLS-1: fields, methods, static methods and class constants in a kernel that is a method."""
        o = Oscillator(5, 2.0)
        for _ in range(3):
            o.step(0.25)
        x, v = stepped(5, 2.0, 0.5, 0.25, 3)
        np.testing.assert_allclose(o.x.numpy(), x, rtol=1e-6)
        np.testing.assert_allclose(o.v.numpy(), v, rtol=1e-6)
        out = tack.zeros(5, tack.f32)
        o.energy(out)
        np.testing.assert_allclose(out.numpy(), v * v + np.float32(2) * x * x, rtol=1e-6)
        wrong, _ = stepped(5, 2.0, 0.0, 0.25, 3)
        assert not np.allclose(o.x.numpy(), wrong, rtol=1e-6)  # the oracle notices a missing term

    def test_calls_by_keyword_and_through_the_class(self, device):
        """CLS-1, PAR-1: a kernel of a class is called as any method."""
        a, b, c = (Oscillator(3, 1.0) for _ in range(3))
        a.step(0.5)
        b.step(dt=0.5)
        Oscillator.step(c, 0.5)
        assert a.x.numpy().tolist() == b.x.numpy().tolist() == c.x.numpy().tolist() != [1.0] * 3

    def test_instances_as_arguments(self, device):
        """CLS-1, CLS-5: an instance is an argument of a free kernel, and passes on to device functions by any route."""

        @tack.func
        def pull(system, i):
            return system.force(system.x[i]) + through(system, i)

        @tack.func
        def through(other, i):
            return other.drag(i)

        @tack.kernel
        def forces(out, system, factor=2.0):
            for i in range(system.n):
                out[i] = pull(system=system, i=i) * factor

        o = Oscillator(4, 3.0)
        o.v = tack.asarray([1, 2, 3, 4], tack.f32)
        out = tack.zeros(4, tack.f32)
        forces(out, o)
        assert out.numpy().tolist() == [2 * (-3.0 + 0.5 * v) for v in (1, 2, 3, 4)]
        forces(system=o, out=out, factor=1.0)
        assert out.numpy().tolist() == [-3.0 + 0.5 * v for v in (1, 2, 3, 4)]

    @pytest.mark.requires("host_memory")
    def test_numpy_arrays_as_fields(self, device):
        """CLS-4, PAR-4: an array of an instance may be any that is an argument elsewhere; it is used in place."""
        o = Oscillator(3, 2.0)
        o.x, o.v = np.ones(3, np.float32), np.zeros(3, np.float32)
        o.step(0.25)
        x, v = stepped(3, 2.0, 0.5, 0.25, 1)
        assert o.x.tolist() == x.tolist() and o.v.tolist() == v.tolist()
        o.x = np.ones(6, np.float32)[::2]
        with pytest.raises(ValueError, match=r"`self\.x` was given(.|\n)*ascontiguousarray"):
            o.step(0.25)

    def test_two_instances_in_one_call(self, device):
        """CLS-1: the fields of two instances of one class are apart."""

        @tack.kernel
        def exchange(a, b):
            for i in range(a.n):
                a.x[i] = a.stiffness + b.stiffness * b.x[i]

        first, second = Oscillator(2, 1.0), Oscillator(2, 10.0)
        second.x.fill(4)
        exchange(first, second)
        assert first.x.numpy().tolist() == [41.0, 41.0]
        exchange(first, first)
        assert first.x.numpy().tolist() == [42.0, 42.0]

    def test_numbers_that_change_are_scalars(self, device):
        """CLS-3: instance numbers are read at each call, compile nothing, and may bound loops."""

        def code_of(kernel):
            return [len(lowering.rows) for lowering in record_of(Oscillator).variants[kernel]]

        o = Oscillator(4, 2.0)
        o.step(0.25)
        before = code_of(Oscillator.step)
        for n, stiffness in ((2, 7.0), (4, -1.5), (0, 1.0)):
            o.n, o.stiffness = n, stiffness
            o.x.fill(1)
            o.v.fill(0)
            o.step(0.25)
            x, _ = stepped(n, stiffness, 0.5, 0.25, 1)
            assert o.x.numpy().tolist() == [*x.tolist(), *[1.0] * (4 - n)]
        assert code_of(Oscillator.step) == before

    def test_types_of_fields(self, device):
        """CLS-3, PAR-4: a field has the type that an argument of its value would have."""

        @tack.data_oriented
        class Fields:
            def __init__(self, value, out):
                self.value, self.out = value, out

            @tack.kernel
            def double(self):
                for i in range(1):
                    self.out[0] = self.value + self.value

        def doubled(value, dtype):
            fields = Fields(value, tack.zeros(1, dtype))
            fields.double()
            return fields.out[0]

        assert doubled(tack.u8(200), tack.i32) == 144
        assert doubled(200, tack.i32) == 400
        assert doubled(1 << 40, tack.i64) == 1 << 41
        assert doubled(np.int8(100), tack.i32) == 200
        assert doubled(0.1, tack.f64) == 0.2  # beside an f64 array
        assert doubled(0.1, tack.f32) == np.float32(0.2)
        assert doubled(True, tack.i32) == 2

    def test_nested_instances(self, device):
        """CLS-6: an instance that an instance holds, to any depth."""

        @tack.data_oriented
        class Lens:
            POWER = 3

            def __init__(self, focus):
                self.focus = focus

            @tack.func
            def bend(self, x):
                return x * self.focus + self.POWER

        @tack.data_oriented
        class Camera:
            def __init__(self, focus):
                self.lens = Lens(focus)
                self.offset = 1.0

            @tack.func
            def ray(self, x):
                return self.lens.bend(x) + self.offset + self.lens.focus

        @tack.data_oriented
        class Scene:
            def __init__(self, focus):
                self.camera = Camera(focus)
                self.image = tack.zeros(3, tack.f32)

            @tack.kernel
            def render(self):
                for i in range(self.image.size):
                    self.image[i] = self.camera.ray(i) + self.camera.lens.POWER

        scene = Scene(2.0)
        scene.render()
        assert scene.image.numpy().tolist() == [2.0 * i + 3 + 1 + 2 + 3 for i in range(3)]
        scene.camera = Camera(5.0)
        scene.render()
        assert scene.image.numpy().tolist() == [5.0 * i + 3 + 1 + 5 + 3 for i in range(3)]
        assert lowerings(Scene) + lowerings(Camera) + lowerings(Lens) == 1

    def test_inheritance(self, device):
        """CLS-5, CLS-7: inherited, overridden and `super()` methods; a subclass has its own code."""

        class Plain:
            @tack.func
            def twice(self, x):
                return x * 2

        @tack.data_oriented
        class Base(Plain):
            SCALE = 10

            def __init__(self):
                self.out = tack.zeros(1, tack.i32)

            @tack.func
            def value(self, x):
                return self.twice(x) + self.SCALE

            @tack.kernel
            def run(self, x):
                for _ in range(1):
                    self.out[0] = self.value(x)

        class Override(Base):
            @tack.func
            def value(self, x):
                return super().value(x) + 1000

        class Scaled(Override):
            SCALE = 20

        results = []
        for cls in (Base, Override, Scaled, Base):
            instance = cls()
            instance.run(3)
            results.append(instance.out[0])
        assert results == [16, 1016, 1026, 16]
        assert [lowerings(cls) for cls in (Base, Override, Scaled)] == [1, 1, 1]

    def test_a_base_method_by_the_name_of_its_class(self, device):
        """CLS-5: `Base.method(self, x)`, and a constant by the name of the class."""
        out = tack.zeros(1, tack.f32)

        @tack.kernel
        def by_name(system, out):
            for _ in range(1):
                out[0] = Oscillator.force(system, 2.0) + Oscillator.DRAG + Oscillator.square(3.0)

        by_name(Oscillator(1, 4.0), out)
        assert out[0] == -8.0 + 0.5 + 9.0

    def test_dataclasses_and_slots(self, device):
        """CLS-1: fields of dataclasses and slots are fields of instances, also beside a default in the class."""

        @tack.data_oriented
        @dataclass
        class Point:
            x: float = 1.0
            y: float = 2.0

        @tack.data_oriented
        class Slotted:
            __slots__ = ("scale",)

            def __init__(self, scale):
                self.scale = scale

        @tack.kernel
        def put(p, s, out):
            for _ in range(1):
                out[0] = (p.x * 10 + p.y) * s.scale

        out = tack.zeros(1, tack.f32)
        for x, scale in ((1.0, 1.0), (7.0, 2.0)):
            put(Point(x), Slotted(scale), out)
            assert out[0] == (x * 10 + 2) * scale
        assert lowerings(Point) + lowerings(Slotted) == 1

    def test_fields_named_like_attributes_of_arrays(self, device):
        """CLS-1: `shape`, `size` and `ndim` of an instance are what it holds."""

        @tack.data_oriented
        class Odd:
            def __init__(self):
                self.size, self.ndim, self.shape = 5, 7, tack.asarray([11, 13], tack.i32)

        @tack.kernel
        def read(odd, out):
            for _ in range(1):
                out[0] = odd.size + odd.ndim * 100 + odd.shape[1] * 10000 + odd.shape.shape[0]

        out = tack.zeros(1, tack.i32)
        read(Odd(), out)
        assert out[0] == 5 + 700 + 130000 + 2

    def test_only_used_fields_are_passed(self, device):
        """CLS-2: a field that no code uses may be anything."""

        @tack.data_oriented
        class Mixed:
            def __init__(self):
                self.name, self.table, self.x = "name", {"a": 1}, tack.zeros(2, tack.i32)

            @tack.kernel
            def fill(self):
                for i in range(2):
                    self.x[i] = i + 1

        m = Mixed()
        m.fill()
        assert m.x.numpy().tolist() == [1, 2]

    def test_a_return_and_atomics(self, device):
        """CLS-1, ATOM-1, CALL-2: arrays of instances take part in everything that arrays do."""

        @tack.data_oriented
        class Counter:
            def __init__(self):
                self.total = tack.zeros(1, tack.i32)

            @tack.func
            def add(self, i):
                tack.atomic_add(self.total, 0, i)

            @tack.kernel
            def count(self, n):
                for i in range(n):
                    self.add(i)
                return self.total[0]

        assert Counter().count(100) == 4950

    def test_local_arrays_into_methods(self, device):
        """CLS-5, FUNC-4: a method takes arrays beside its instance."""

        @tack.data_oriented
        class Filter:
            def __init__(self, gain):
                self.gain = gain

            @tack.func
            def apply(self, window, k):
                window[k] = window[k] * self.gain

        @tack.kernel
        def run(f, out):
            for i in range(out.shape[0]):
                window = tack.local(2, tack.f32)
                window[0] = i
                window[1] = 1.0
                f.apply(window, 0)
                f.apply(window, 1)
                out[i] = window[0] + window[1]

        out = tack.zeros(3, tack.f32)
        run(Filter(2.0), out)
        assert out.numpy().tolist() == [2.0, 4.0, 6.0]


def method_error(body, value=1.0, **members):
    """The error of a kernel method with this body, on an instance that holds `self.value`."""
    head = "import tack\nclass User:\n    @tack.kernel\n    def run(self, out):\n        for i in range(1):\n"
    text = f"{head}            {body}\n"
    name = f"<class {abs(hash((body, *members)))}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    space = {}
    exec(compile(text, name, "exec"), space)
    cls = space["User"]
    for key, member in members.items():
        setattr(cls, key, member)
    instance = tack.data_oriented(cls)()
    instance.value = value
    with pytest.raises((TypeError, NameError, ValueError, NotImplementedError)) as caught:
        instance.run(tack.zeros(1, tack.f32))
    return caught.value


class TestRefused:
    @pytest.mark.parametrize(
        ("body", "kind", "words"),
        [
            ("self.value = 2.0", TypeError, "cannot be assigned in a kernel(.|\n)*on the host between calls"),
            ("self.value += 2.0", TypeError, "cannot be assigned in a kernel"),
            ("self.other = 2.0", TypeError, "`self.other` cannot be assigned"),
            ("self = 1", TypeError, "instance of User"),
            ("out[0] = self", TypeError, "`self` is an instance of User, not a number"),
            ("x = self", TypeError, "instance of User"),
            ("out[0] = self[0]", TypeError, "instance of User"),
            ("out[0] = self.valeu", NameError, "User has no `valeu`(.|\n)*did you mean `value`"),
            ("out[0] = self.nothing_like_it", NameError, "assign it in `__init__`"),
            ("out[0] = self.value(1)", NotImplementedError, "call of a method"),
            ("out[0] = self.value[0]", TypeError, "self.value` was given 1.0|is a number"),
            ("out[0] = self.plain(1)", NotImplementedError, "decorate it with @tack.func"),
            ("out[0] = self.computed", NotImplementedError, "is a property"),
            ("out[0] = self.by_class(1)", NotImplementedError, "class method(.|\n)*static"),
            ("out[0] = self.held[0]", TypeError, "an array that the class holds(.|\n)*self.held = "),
            ("out[0] = self.run(out)", NotImplementedError, "kernels are called on the host"),
        ],
    )
    def test_what_a_kernel_cannot_do_with_an_instance(self, device, body, kind, words):
        """CLS-4, CLS-8: each says what to write instead."""
        error = method_error(
            body,
            plain=lambda self, x: x,
            computed=property(lambda self: 1.0),
            by_class=classmethod(lambda cls, x: x),
            held=np.zeros(3, np.float32),
        )
        assert isinstance(error, kind), error
        assert re.search(words, str(error)), error

    @pytest.mark.parametrize("value", ["text", None, [1, 2], {"a": 1}, 1j, 1 << 70])
    def test_fields_that_are_no_arguments(self, device, value):
        """CLS-8, PAR-7: the field is named, and what it holds."""
        error = method_error("out[0] = self.value", value)
        assert "`self.value` was given" in str(error)

    def test_an_undecorated_class(self, device):
        """CLS-8: the error says which decorator is missing."""

        class Plain:
            def __init__(self):
                self.v = 1.0

            @tack.kernel
            def run(self, out):
                for _ in range(1):
                    out[0] = self.v

        with pytest.raises(TypeError, match=r"Plain.*decorated with @tack\.data_oriented"):
            Plain().run(tack.zeros(1, tack.f32))

    def test_the_decorator_takes_classes(self):
        """CLS-1."""
        with pytest.raises(TypeError, match="decorates a class"):
            tack.data_oriented(lambda: 1)
        assert isinstance(Oscillator(1, 1.0).step, types.MethodType)
        with pytest.raises(TypeError, match="only inside a kernel"):
            Oscillator(1, 1.0).force(1.0)

    def test_recursion_through_methods(self, device):
        """CLS-5, SYN-7."""

        @tack.data_oriented
        class Loop:
            @tack.func
            def f(self, x):
                return self.f(x)

            @tack.kernel
            def run(self, out):
                for _ in range(1):
                    out[0] = self.f(1)

        with pytest.raises(tack.UnsupportedSyntaxError, match="recursion"):
            Loop().run(tack.zeros(1, tack.f32))
