"""Kernels and device functions as Python objects: copied and pickled as functions are, named as one likes."""

from __future__ import annotations

import copy
import multiprocessing
import pickle
import sys

import numpy as np
import pytest

import tack
from kernel_text import run_text


@tack.func
def twice(x):
    return x + x


@tack.kernel
def doubled(a):
    for i in range(a.shape[0]):
        a[i] = twice(a[i])


def host_function():
    pass


class Holder:
    @tack.kernel
    def fill(out):
        for i in range(out.shape[0]):
            out[i] = 7


@pytest.mark.parametrize("thing", [doubled, twice, host_function, Holder.__dict__["fill"]], ids=lambda f: f.__name__)
def test_copies_and_pickles_are_the_thing_itself(thing):
    """SPEC-1: one kernel, one set of variants, as for a function, which is the oracle."""
    assert copy.copy(thing) is thing and copy.deepcopy([thing])[0] is thing
    assert pickle.loads(pickle.dumps(thing)) is thing


def test_a_kernel_that_cannot_be_found_by_name_cannot_be_pickled():
    """SPEC-1: as for a function"""

    @tack.kernel
    def hidden(out):
        for i in range(out.shape[0]):
            out[i] = 1

    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(hidden)
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(lambda: 0)
    assert copy.deepcopy(hidden) is hidden


def _in_worker(kernel, values, results):
    kernel(values)
    results.put(values.tolist())


@pytest.mark.parametrize("method", sorted({"spawn", "forkserver"} & {*multiprocessing.get_all_start_methods()}))
def test_a_kernel_as_the_argument_of_another_process(method):
    """CALL-4: it is found again by its name there, whichever way of starting processes is Python's default."""
    context = multiprocessing.get_context(method)
    results = context.Queue()
    worker = context.Process(target=_in_worker, args=(doubled, np.arange(3.0), results))
    worker.start()
    assert results.get(timeout=60) == [0.0, 2.0, 4.0]
    worker.join()


def test_names_of_any_length(device):
    """SRC-8: names that differ only after a thousand letters, of a kernel, a function, parameters and locals."""
    f, a, b, x, y = (letter * 3000 for letter in "fabxy")
    text = f"@tack.func\ndef {f}1({a}1, {a}2):\n    {x}1 = {a}1\n    {x}2 = {a}2\n    return {x}1 * 10 + {x}2\n"
    text += f"@tack.kernel\ndef {f}2({b}1, {b}2, {b}3):\n    for {y}1 in range(2):\n        {y}2 = {b}2[{y}1]\n"
    text += f"        {b}1[{y}1] = {f}1({y}2, {b}3)\n"
    out = np.zeros(2)
    run_text(text)[f"{f}2"](out, np.array([1.0, 2.0]), 3)
    assert out.tolist() == [13.0, 23.0]


def test_printing_where_there_is_no_output(device, monkeypatch):
    """SYN-4: as Python's print, which is the oracle."""
    monkeypatch.setattr(sys, "stdout", None)
    print("nowhere")
    out = np.zeros(1)
    text = "@tack.kernel\ndef k(out):\n    for i in range(1):\n        print('i', i)\n        out[0] = 1\n"
    run_text(text)["k"](out)
    assert out[0] == 1
