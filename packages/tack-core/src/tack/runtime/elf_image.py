"""An object file of this machine linked to a flat image, which `native_image` maps into a process in microseconds.

LLVM's own linker needs LLVM, and loading that takes 60 to 100 ms. Code for this purpose is position-independent and
small, so that linking is little more than arithmetic; it is done once, when the code is compiled, and the image is what
a disk cache keeps. What is not understood (another format, a processor, an unusual relocation) is left to LLVM: `link`
returns None.
"""

from __future__ import annotations

import struct

from tack.lang.records import field, record
from tack.runtime.native_image import PAGE, Image

_ALLOC, _WRITE, _EXEC, _TLS = 2, 1, 4, 0x400  # SHF_*
_SYMTAB, _RELA, _NOBITS, _UNWIND = 2, 4, 8, 0x70000001  # SHT_*
_X86_64 = 62
_R_64, _R_PC32, _R_PLT32, _R_PC64 = 1, 2, 4, 24
_R_GOT = frozenset({9, 41, 42})  # GOTPCREL, GOTPCRELX, REX_GOTPCRELX

_JUMP = b"\xff\x25"  # jmp *[rip + offset]
_JUMP_THROUGH = b"\x4c\x8b\x1d", b"\x41\xff\x23"  # mov r11, [rip + offset]; jmp *[r11]
_STUB_BYTES = 16


class _Unsupported(Exception):
    pass


@record
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    address: int = -1  # in the image; -1: not part of it


@record(frozen=True)
class _Symbol:
    name: str
    section: int  # 0: somewhere else
    value: int


@record
class _Linker:
    """Lays sections out as code, constants and data, each from a page on; constants end with the table of addresses."""

    data: bytes
    late: frozenset[str]
    sections: list[_Section] = field(default_factory=list)
    symbols: list[_Symbol] = field(default_factory=list)
    relocations: list[tuple[int, int, int, int]] = field(default_factory=list)  # place, kind, symbol, addend
    slots: dict[int, int] = field(default_factory=dict)
    stubs: dict[int, int] = field(default_factory=dict)
    imports: list[tuple[str, int, int]] = field(default_factory=list)
    relative: list[tuple[int, int]] = field(default_factory=list)

    def link(self, exports: tuple[str, ...]) -> Image:
        self._read()
        ends = self._place()
        content = bytearray(ends[2])
        for s in self.sections:
            if s.address >= 0 and s.kind != _NOBITS:
                content[s.address : s.address + s.size] = self.data[s.offset : s.offset + s.size]
        for symbol, stub in self.stubs.items():
            self._write_stub(content, stub, symbol)
        for symbol, slot in self.slots.items():
            self._fill(slot, symbol, 0)
        for place, kind, symbol, addend in self.relocations:
            self._apply(content, place, kind, symbol, addend)
        numbers = {s.name: i for i, s in enumerate(self.symbols)}
        found = {name: self._address(numbers[name]) for name in exports}
        return Image(bytes(content).rstrip(b"\0"), ends, found, tuple(self.imports), tuple(self.relative))

    def _read(self) -> None:
        data = self.data
        if data[:7] != b"\x7fELF\x02\x01\x01" or struct.unpack_from("<HH", data, 16) != (1, _X86_64):
            raise _Unsupported
        (table,) = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", data, table + i * size) for i in range(count)]
        names_at = rows[names][4]
        for name, kind, flags, _, offset, length, link, info, align, _ in rows:
            text = self._text(names_at + name)
            self.sections.append(_Section(text, kind, flags, offset, length, link, info, max(1, align)))
        for s in self.sections:
            if s.kind == _SYMTAB:
                strings = self.sections[s.link].offset
                for name, _, _, section, value, _ in struct.iter_unpack("<IBBHQQ", data[s.offset : s.offset + s.size]):
                    self.symbols.append(_Symbol(self._text(strings + name), section, value))

    def _text(self, at: int) -> str:
        return self.data[at : self.data.index(b"\0", at)].decode()

    def _place(self) -> tuple[int, int, int]:
        """Give sections, stubs and address slots their places; where code, constants and data end."""
        kept = [s for s in self.sections if s.flags & _ALLOC and s.kind != _UNWIND and s.name != ".eh_frame"]
        if any(s.flags & _TLS for s in kept):
            raise _Unsupported
        constant = [s for s in kept if not s.flags & _WRITE or s.name.startswith(".data.rel.ro")]
        groups = (
            [s for s in kept if s.flags & _EXEC],
            [s for s in constant if not s.flags & _EXEC],
            [s for s in kept if s.flags & _WRITE and not s.name.startswith(".data.rel.ro")],
        )
        self._survey()
        end, ends = 0, []
        for number, group in enumerate(groups):
            for s in group:
                s.address = end = -(-end // s.align) * s.align
                end += s.size
            extra, step = ((self.stubs, _STUB_BYTES), (self.slots, 8), ({}, 8))[number]
            end = -(-end // step) * step
            for symbol in extra:
                extra[symbol] = end
                end += step
            end = -(-end // PAGE) * PAGE
            ends.append(end)
        self.relocations = [(self.sections[n].address + at, k, s, a) for n, at, k, s, a in self._raw()]
        return ends[0], ends[1], ends[2]

    def _raw(self) -> list[tuple[int, int, int, int, int]]:
        found = []
        for s in (s for s in self.sections if s.kind == _RELA):
            target = self.sections[s.info]
            if target.flags & _ALLOC and target.kind != _UNWIND and target.name != ".eh_frame":
                for at, info, addend in struct.iter_unpack("<QQq", self.data[s.offset : s.offset + s.size]):
                    found.append((s.info, at, info & 0xFFFFFFFF, info >> 32, addend))
        return found

    def _survey(self) -> None:
        """Which symbols need a slot for their address, and which a stub to be called through."""
        for _, _, kind, symbol, _ in self._raw():
            external = self.symbols[symbol].section == 0
            if kind in _R_GOT or (kind == _R_PLT32 and external):
                self.slots[symbol] = -1
            if kind == _R_PLT32 and external:
                self.stubs[symbol] = -1

    def _address(self, symbol: int) -> int:
        s = self.symbols[symbol]
        if not 0 < s.section < len(self.sections):
            raise _Unsupported
        return self.sections[s.section].address + s.value

    def _fill(self, place: int, symbol: int, addend: int) -> None:
        """An absolute address at `place`, known only in the process that loads the image."""
        s = self.symbols[symbol]
        if s.section == 0:
            self.imports.append((s.name, place, addend))
        else:
            self.relative.append((place, self._address(symbol) + addend))

    def _write_stub(self, content: bytearray, stub: int, symbol: int) -> None:
        slot = self.slots[symbol]
        if self.symbols[symbol].name in self.late:
            load, jump = _JUMP_THROUGH
            code = load + struct.pack("<i", slot - (stub + 7)) + jump
        else:
            code = _JUMP + struct.pack("<i", slot - (stub + 6))
        content[stub : stub + len(code)] = code

    def _apply(self, content: bytearray, place: int, kind: int, symbol: int, addend: int) -> None:
        if kind == _R_64:
            self._fill(place, symbol, addend)
        elif kind in _R_GOT:
            struct.pack_into("<i", content, place, self.slots[symbol] + addend - place)
        elif kind == _R_PLT32 and symbol in self.stubs:
            struct.pack_into("<i", content, place, self.stubs[symbol] + addend - place)
        elif kind in (_R_PC32, _R_PLT32):
            struct.pack_into("<i", content, place, self._address(symbol) + addend - place)
        elif kind == _R_PC64:
            struct.pack_into("<q", content, place, self._address(symbol) + addend - place)
        else:
            raise _Unsupported


def link(data: bytes, exports: tuple[str, ...], late: frozenset[str] = frozenset()) -> Image | None:
    """Link one object file; None if it is of a kind that this module does not know.

    Parameters
    ----------
    data
        The object file, compiled as position-independent code.
    exports
        Symbols whose places are wanted.
    late
        Functions whose address may change after loading: what is imported under such a name is the address of a word
        that holds the function's address, and every call reads it.
    """
    try:
        return _Linker(data, late).link(exports)
    except (_Unsupported, struct.error, IndexError, KeyError, ValueError):
        return None
