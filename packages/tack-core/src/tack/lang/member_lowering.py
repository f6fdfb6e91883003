"""Members of instances: what `self.x` means in a kernel or device function (rules CLS-*)."""

from __future__ import annotations

import ast
import inspect
import weakref
from collections.abc import Mapping
from typing import Any

from tack.lang.data_oriented import (
    InstanceNode,
    Structure,
    class_entry,
    instance_value,
    is_data_oriented,
    is_data_oriented_class,
    is_super,
)
from tack.lang.func import Func
from tack.lang.lowering_context import Captured, Context
from tack.lang.names import MISSING
from tack.lang.records import field, record
from tack.lang.source import FunctionSource

_OF_TEXTURES = "kernels sample a texture, `tex.sample(u, v, w)`; pass its extents as arguments"


@record(eq=False)
class InstanceRef:
    """An instance that the function being lowered names. `obj` is an example of it, held only while lowering."""

    obj: Any
    node: int
    spelling: str
    origin: ast.arg  # the parameter that it comes from
    parent: int = -1
    position: int = -1
    name: str = ""
    class_names: dict[str, None] = field(default_factory=dict)


class MemberLowering(Context):
    """Resolves attributes of instance parameters, and remembers which are used."""

    def __init__(self, source: FunctionSource, locals_: set[str], objects: Mapping[int, Any]) -> None:
        super().__init__(source, locals_)
        self.objects = objects
        self.instances: dict[str, InstanceRef] = {}  # by symbol of the parameter
        self.nodes: list[InstanceRef] = []
        self.fields: dict[tuple[int, str], str] = {}  # node and attribute: the parameter made of it

    def declare_instance(self, argument: ast.arg, position: int) -> None:
        symbol = self.bindings[argument.arg] = self.new_symbol(argument.arg, "instance", argument)
        ref = InstanceRef(self.objects[position], len(self.nodes), argument.arg, argument, position=position)
        self.instances[symbol] = ref
        self.nodes.append(ref)

    def structure(self) -> Structure | None:
        """What `declare_instance` and the uses since then add up to."""
        if not self.nodes:
            return None
        nodes = (
            InstanceNode(n.parent, n.position, n.name, weakref.ref(type(n.obj)), tuple(n.class_names))
            for n in self.nodes
        )
        positions = tuple(ref.position for ref in self.instances.values())
        return Structure(tuple(nodes), tuple(self.fields), positions)

    # ---------------------------------------------------------------------------------------------------- instances

    def instance(self, node: ast.expr) -> InstanceRef | None:
        """The instance that an expression names: a parameter, or an attribute of an instance."""
        if isinstance(node, ast.Name):
            symbol = self.bindings.get(node.id) if node.id in self.local_names else None
            return None if symbol is None else self.instances.get(symbol)
        if not isinstance(node, ast.Attribute):
            return None
        owner = self.instance(node.value)
        if owner is None or not is_data_oriented(instance_value(owner.obj, node.attr)):
            return None
        return self.nested(owner, node.attr)

    def nested(self, owner: InstanceRef, name: str) -> InstanceRef:
        """The instance that another one holds."""
        for known in self.nodes:
            if known.parent == owner.node and known.name == name:
                return known
        value = instance_value(owner.obj, name)
        spelling = f"{owner.spelling}.{name}"
        ref = InstanceRef(value, len(self.nodes), spelling, owner.origin, parent=owner.node, name=name)
        self.nodes.append(ref)
        return ref

    def adopt_nodes(self, structure: Structure, objects: Mapping[int, InstanceRef]) -> list[InstanceRef]:
        """The instances of a callee as this function names them; what it read from classes is read here too."""
        refs: list[InstanceRef] = []
        for part in structure.nodes:
            refs.append(objects[part.position] if part.parent < 0 else self.nested(refs[part.parent], part.name))
            refs[-1].class_names.update(dict.fromkeys(part.class_names))
        return refs

    def refuse_instance(self, node: ast.expr) -> None:
        """Refuse an instance where a number or an array is needed."""
        ref = self.instance(node)
        if ref is not None:
            self.fail(
                TypeError,
                f"`{ref.spelling}` is an instance of {type(ref.obj).__name__}, not a number or an array",
                node,
                f"write `{ref.spelling}.sample(u, v, w)`"
                if _is_texture(type(ref.obj))
                else f"use its attributes, `{ref.spelling}.name`, or pass it to a device function",
            )

    def refuse_attribute_store(self, target: ast.expr) -> None:
        """Refuse `self.x = ...` for an attribute of an instance (rule CLS-4)."""
        ref = self.instance(target.value) if isinstance(target, ast.Attribute) else None
        if ref is not None and isinstance(target, ast.Attribute):
            spelled = f"{ref.spelling}.{target.attr}"
            self.fail(
                TypeError,
                f"`{spelled}` cannot be assigned in a kernel: it is an attribute of an instance, the same for all "
                "iterations",
                target,
                f"store to an element of an array that the instance holds, use a local, or assign `{spelled}` on the "
                "host between calls",
            )

    # -------------------------------------------------------------------------------------------- members by kind

    def field(self, node: ast.expr) -> str | None:
        """The parameter that an attribute of an instance became, if the instance itself holds a number or an array."""
        if not isinstance(node, ast.Attribute):
            return None
        owner = self.instance(node.value)
        if owner is None:
            return None
        value = instance_value(owner.obj, node.attr)
        return None if value is MISSING or is_data_oriented(value) else self.field_symbol(owner, node.attr)

    def field_symbol(self, owner: InstanceRef, name: str) -> str:
        key = (owner.node, name)
        if key not in self.fields:
            symbol = self.new_symbol(f"{owner.spelling}.{name}", "param", owner.origin)
            self.fields[key] = symbol
            self.params.append(symbol)
        return self.fields[key]

    def captured(self, node: ast.expr) -> Captured | None:
        """What a name or chain holds, members of classes included; None for locals and for what instances hold."""
        if isinstance(node, ast.Attribute):
            owner = self.instance(node.value)
            if owner is not None:
                held = instance_value(owner.obj, node.attr) is not MISSING
                return None if held else self.class_member(owner, node, None)
            if is_super(node.value):
                return self.class_member(self.super_instance(node), node, self.defining_class())
        return super().captured(node)

    def _captured_attribute(self, base: Captured, node: ast.Attribute) -> Captured:
        if is_data_oriented(base.value):
            what = f"`{base.spelling}` is an instance of {type(base.value).__name__}, which a kernel cannot capture"
            self.fail(TypeError, what, node, "pass it to the kernel as an argument")
        if not is_data_oriented_class(base.value):
            return super()._captured_attribute(base, node)
        return self.read_class(base.value, None, base.spelling, node)

    def class_member(self, owner: InstanceRef, node: ast.Attribute, after: type | None) -> Captured:
        """An attribute that the instance takes from its class: a constant or a device function."""
        owner.class_names[node.attr] = None
        return self.read_class(type(owner.obj), after, owner.spelling, node)

    def read_class(self, cls: type, after: type | None, spelling: str, node: ast.Attribute) -> Captured:
        name, spelled = node.attr, f"{spelling}.{node.attr}"
        value = self.scope.class_attribute(cls, after, name)
        if value is MISSING:
            held = [n for ref in self.nodes for n in getattr(ref.obj, "__dict__", ())] + dir(cls)
            from difflib import get_close_matches  # slow to load, and only errors need it

            similar = get_close_matches(name, held, n=1)
            hint = f"did you mean `{similar[0]}`?" if similar else "assign it in `__init__`, before the call"
            if _is_texture(cls):
                hint = _OF_TEXTURES
            self.fail(NameError, f"`{spelled}`: {cls.__name__} has no `{name}`", node, hint)
        if isinstance(value, property):
            hint = "a kernel runs no host code: keep the value in an attribute of the instance"
            hint = _OF_TEXTURES if _is_texture(cls) else hint
            self.unsupported(f"`{spelled}` is a property, which is not supported", node, hint)
        if inspect.ismethod(value):
            self.unsupported(f"`{spelled}` is a class method, which is not supported", node, "make it a static method")
        if is_data_oriented(value) or _is_array(value):
            what = "an instance" if is_data_oriented(value) else "an array"
            hint = f"let the instance hold it: `self.{name} = ...` in `__init__`"
            self.fail(TypeError, f"`{spelled}` is {what} that the class holds", node, hint)
        return Captured(spelled, value)

    # ------------------------------------------------------------------------------------------------------- super

    def super_instance(self, node: ast.Attribute) -> InstanceRef:
        """The instance that `super()` speaks of: the first parameter."""
        first = self.nodes[0] if self.nodes else None
        if first is None or first.position != 0:
            self.unsupported("`super()` works only in a method called on an instance", node, None)
        return first

    def defining_class(self) -> type:
        fn = self.source.fn
        cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
        cls = cells["__class__"].cell_contents  # Python makes the cell for every function that names `super`
        assert isinstance(cls, type)
        return cls

    def receiver(self, node: ast.Call) -> InstanceRef | None:
        """The instance on which a device function is called as a method; None for static and free functions."""
        if not isinstance(node.func, ast.Attribute):
            return None
        by_super = is_super(node.func.value)
        owner = self.super_instance(node.func) if by_super else self.instance(node.func.value)
        if owner is None:
            return None
        found = class_entry(type(owner.obj), self.defining_class() if by_super else None, node.func.attr)
        return owner if isinstance(found, Func) else None


def _is_array(value: object) -> bool:
    """Whether a value is an array of any library."""
    return hasattr(value, "__dlpack__") or getattr(value, "ndim", 0) > 0


def _is_texture(cls: type) -> bool:
    from tack.lang.texture import Texture3D  # only errors ask

    return issubclass(cls, Texture3D)
