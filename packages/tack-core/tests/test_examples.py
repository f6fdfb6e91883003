"""The examples do what they say: each one's own check, on the CPU and, where that is quick, on the reference device."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import tack

pytest.importorskip("matplotlib", reason="the examples draw with Matplotlib")

EXAMPLES = Path(__file__).parents[3] / "examples"
CHECKED = sorted(path.stem for path in EXAMPLES.glob("*.py") if "def check(" in path.read_text(encoding="utf-8"))
# The reference device runs a program in plain Python: these checks are small enough for it.
SMALL = ["fft", "kmeans", "life", "volume"]


@pytest.fixture(autouse=True)
def private_folder(tmp_path, monkeypatch):
    """Examples import their neighbours, and write to `out` in the current folder."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    yield
    for name in [*CHECKED, "terrain", "common"]:
        sys.modules.pop(name, None)


def test_every_program_is_checked():
    """What is not a program of its own is `common`; `terrain` compares with NumPy as it runs, tested below."""
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*CHECKED, "common", "terrain"}
    assert set(SMALL) < set(CHECKED)


@pytest.mark.parametrize("name", CHECKED)
def test_check_passes_on_the_cpu(name):
    with tack.device("cpu"):
        assert importlib.import_module(name).check()


@pytest.mark.parametrize("name", SMALL)
def test_check_passes_on_the_reference_device(name):
    with tack.device("reference"):
        assert importlib.import_module(name).check()


def test_a_wrong_kernel_fails_its_check(monkeypatch):
    """The negative control: a rule of life that is off by one is noticed."""
    life = importlib.import_module("life")

    @tack.kernel
    def wrong(world, out):
        for y, x in tack.ndrange(world.shape[0], world.shape[1]):
            out[y, x] = world[y, x]

    monkeypatch.setattr(life, "step", wrong)
    with tack.device("cpu"), pytest.raises(AssertionError):
        life.check()


def test_a_picture_is_written(capsys):
    common = importlib.import_module("common")
    axes = common.figure(2, 2)
    axes.plot([0, 1])
    path = common.save(axes, "line")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in capsys.readouterr().out


def test_terrain_equals_numpy():
    """The demo's kernels on a made-up hill, beside its own functions for NumPy: at most a few last bits apart."""
    terrain = importlib.import_module("terrain")
    y, x = np.mgrid[:20, :24]
    dem = (300 + 80 * np.sin(x / 4.0) * np.cos(y / 3.0)).astype(np.int16)
    shape = tuple(n * terrain.ZOOM for n in dem.shape)
    z, slope, shade = (np.zeros(shape, np.float32) for _ in range(3))
    sun = (-0.5, 0.5, 0.7)
    with tack.device("cpu"):
        terrain.refine(dem, z)
        terrain.hillshade(z, slope, shade, 20.0, 25.0, *sun)
        counts = np.zeros(terrain.BINS, np.int32)
        terrain.slope_classes(slope, counts)
        segments, found = np.zeros((100_000, 4), np.float32), np.zeros(1, np.int32)
        terrain.contours(z, segments, found, 250.0, 3)
    np.testing.assert_allclose(z, terrain.np_refine(dem), rtol=1e-5)
    expected_slope, expected_shade = terrain.np_hillshade(z, 20.0, 25.0, sun)
    np.testing.assert_allclose(slope, expected_slope, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(shade, expected_shade, rtol=1e-4, atol=1e-4)
    assert counts.tolist() == terrain.np_slope_classes(slope).tolist()
    lines = segments[: found[0]]
    expected_lines = terrain.np_contours(z, 250.0, 3)
    assert len(lines) == len(expected_lines) > 100
    np.testing.assert_allclose(terrain.sorted_rows(lines), terrain.sorted_rows(expected_lines), atol=1e-3)
