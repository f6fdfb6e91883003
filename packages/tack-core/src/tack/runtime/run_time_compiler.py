"""Compilers of CUDA C and HIP C that are libraries, NVRTC and hipRTC: two APIs that differ in names alone."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Iterable
from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p
from typing import Any, NoReturn

from tack.lang.records import record
from tack.runtime.gpu_driver import GpuError


def load_ahead(names: Iterable[str]) -> threading.Thread | None:
    """Load the first of these libraries that there is in a thread of its own, while Python makes the text for it.

    This calls the loader itself, since ctypes keeps the GIL meanwhile. None where the loader is another.
    """
    if not sys.platform.startswith("linux"):
        return None
    load = ctypes.CDLL(None).dlopen
    load.argtypes, load.restype = (c_char_p, c_int), c_void_p
    found = (load(os.fsencode(name), os.RTLD_NOW) for name in names)
    thread = threading.Thread(target=any, args=(found,), name="tack-load-ahead")
    thread.start()
    return thread


@record(frozen=True)
class RunTimeCompiler:
    """A compiler's library.

    Attributes
    ----------
    library
        As ctypes loaded it.
    name, language
        In messages: "NVRTC", "CUDA C".
    prefix, product
        Of the library's functions: "nvrtc" and "CUBIN" for ``nvrtcGetCUBIN``.
    error
        What a rejected text is raised as; it takes a message.
    """

    library: Any
    name: str
    language: str
    prefix: str
    product: str
    error: type[GpuError]

    def compile(self, source: str, kernel: str, options: tuple[str, ...]) -> bytes:
        """Machine code of a text.

        Raises
        ------
        GpuError
            If the compiler rejects it; the message has its words and the numbered text.
        """
        program, words = c_void_p(), [option.encode() for option in options]
        self._do("CreateProgram", byref(program), source.encode(), f"{kernel}.src".encode(), 0, None, None)
        try:
            status = self._call("CompileProgram", program, len(words), (c_char_p * len(words))(*words))
            if status:
                self._reject(status, source, kernel, self._bytes("ProgramLog", program))
            return self._bytes(self.product, program)
        finally:
            self._call("DestroyProgram", byref(program))

    def _reject(self, status: int, source: str, kernel: str, log: bytes) -> NoReturn:
        lines = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(source.splitlines(), 1))
        words = log.rstrip(b"\0").decode(errors="replace") or self._word(status)
        raise self.error(f"kernel `{kernel}`: {self.name} cannot compile its {self.language}\n{words}\n{lines}")

    def _call(self, function: str, *arguments: Any) -> int:
        status: int = getattr(self.library, self.prefix + function)(*arguments)
        return status

    def _do(self, function: str, *arguments: Any) -> None:
        status = self._call(function, *arguments)
        if status:
            raise self.error(f"{self.name}: {function}: {self._word(status)}")

    def _word(self, status: int) -> str:
        name = getattr(self.library, f"{self.prefix}GetErrorString")
        name.restype = c_char_p
        return (name(status) or b"unknown error").decode()

    def _bytes(self, what: str, program: c_void_p) -> bytes:
        size = c_size_t()
        self._do(f"Get{what}Size", program, byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self._do(f"Get{what}", program, buffer)
        return buffer.raw[: size.value]
