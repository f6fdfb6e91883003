"""A path tracer: diffuse, mirror and glass balls on a floor under an open sky; draws ``out/path_tracer.png``.

The camera and the scene are classes of kernels and device functions. Every random number is a function of the pixel
and of its number on the path, so a picture has no seams, and can be had again.
"""

from __future__ import annotations

import math

import numpy as np
from common import figure, save

import tack

DIFFUSE, MIRROR, GLASS = 0, 1, 2
FAR = 1e30
EPSILON = 1e-3
BOUNCES = 12
DRAWS = 4 * BOUNCES + 4  # how many draws a path may use
TILE = 1.5  # the floor's pattern


@tack.data_oriented
class Scene:
    """Balls on a floor; `sun` is how bright the sun is, and `blue` how much of the sky's colour there is."""

    def __init__(self, centres, radii, colours, kinds, floor=0.7, sun=0.0, blue=0.0):
        self.centres = tack.asarray(centres, tack.vec3)
        self.radii = tack.asarray(radii, tack.f32)
        self.colours = tack.asarray(colours, tack.vec3)
        self.kinds = tack.asarray(kinds, tack.i32)
        self.floor, self.sun, self.blue = float(floor), float(sun), float(blue)

    @tack.func
    def ball(self, n, origin, direction):
        """The distance to ball n along a ray, or FAR."""
        to = self.centres[n] - origin
        along = tack.dot(to, direction)
        across = to - along * direction
        inside = self.radii[n] * self.radii[n] - tack.dot(across, across)
        if inside > 0.0:
            half = tack.sqrt(inside)
            if along - half > EPSILON:
                return along - half
            if along + half > EPSILON:
                return along + half
        return FAR

    @tack.func
    def nearest(self, origin, direction):
        """The distance to what a ray meets first and its number: -1 is the floor, and FAR the sky."""
        first, which = FAR, -1
        if direction.y < 0.0 and origin.y > EPSILON:
            first = -origin.y / direction.y
        for n in range(self.radii.shape[0]):
            t = self.ball(n, origin, direction)
            if t < first:
                first, which = t, n
        return first, which

    @tack.func
    def sky(self, direction):
        """The light that comes from a direction: white, bluer the higher, and a soft sun."""
        tint = self.blue * tack.math.saturate(direction.y)
        glow = self.sun * tack.math.smoothstep(0.955, 0.995, tack.dot(direction, [0.48, 0.64, 0.6]))
        return tack.vec3(1.0 - 0.75 * tint, 1.0 - 0.5 * tint, 1.0) + glow * [1.0, 0.85, 0.6]

    @tack.func
    def ground(self, p):
        """The floor's colour: tiles when there is a sun, else even."""
        dark = (tack.i32(tack.floor(p.x / TILE)) + tack.i32(tack.floor(p.z / TILE))) % 2
        return self.floor * (0.35 if dark == 1 and self.sun > 0.0 else 1.0)


@tack.func
def glass(direction, normal, chance):
    """The direction of a ray after a surface of glass: reflected or refracted, as chance has it (Schlick)."""
    entering = tack.dot(direction, normal) < 0.0
    n = normal if entering else -normal
    ratio = 1.0 / 1.5 if entering else 1.5
    cosine = min(-tack.dot(direction, n), 1.0)
    below = 1.0 - ratio * ratio * (1.0 - cosine * cosine)
    if below < 0.0:
        return tack.reflect(direction, n)
    deep = tack.sqrt(below)
    grazing = 1.0 - (cosine if entering else deep)
    if chance < 0.04 + 0.96 * grazing**5.0:
        return tack.reflect(direction, n)
    return ratio * direction + (ratio * cosine - deep) * n


@tack.func
def trace(scene, origin, direction, pixel, draw):
    """The light along one path. With every colour 1 it is the sky's, whatever the path: energy is conserved."""
    light = tack.vec3(1.0)
    for bounce in range(BOUNCES):
        t, which = scene.nearest(origin, direction)
        if t == FAR:
            return light * scene.sky(direction)
        origin = origin + t * direction
        normal = tack.vec3(0.0, 1.0, 0.0)
        kind = DIFFUSE
        if which >= 0:
            normal = (origin - scene.centres[which]) / scene.radii[which]
            kind = scene.kinds[which]
            light *= scene.colours[which]
        else:
            light *= scene.ground(origin)
        if kind == MIRROR:
            direction = tack.reflect(direction, normal)
        elif kind == GLASS:
            direction = tack.normalize(glass(direction, normal, tack.random.uniform(1, pixel, draw + bounce)))
        else:
            x, y, z = tack.random.direction3(1, pixel, draw + bounce)
            direction = tack.normalize(normal + 0.9999 * tack.vec3(x, y, z))  # by the cosine law
    return tack.vec3(0.0)


@tack.data_oriented
class Camera:
    """A pinhole camera at `eye`, looking at `target`; `field` is half the picture's height over its distance."""

    def __init__(self, eye, target, field):
        forward = np.subtract(target, eye) / np.linalg.norm(np.subtract(target, eye))
        right = np.cross(forward, (0, 1, 0))
        right /= np.linalg.norm(right)
        self.frame = tack.asarray([eye, field * right, field * np.cross(right, forward), forward], tack.vec3)

    @tack.func
    def direction(self, u, v):
        """Of the ray through a point of the picture; v runs from -1 to 1, upwards."""
        return tack.normalize(u * self.frame[1] + v * self.frame[2] + self.frame[3])

    @tack.kernel
    def take(self, picture, scene, paths, first):
        """Add some paths for each pixel, those from number `first` on."""
        for y, x in tack.ndrange(picture.shape[0], picture.shape[1]):
            pixel = y * picture.shape[1] + x
            total = tack.vec3(0.0)
            for n in range(first, first + paths):
                draw = n * DRAWS
                u = tack.f32(2 * x - picture.shape[1]) + 2.0 * tack.random.uniform(2, pixel, draw)
                v = tack.f32(picture.shape[0] - 2 * y) - 2.0 * tack.random.uniform(2, pixel, draw + 1)
                ray = self.direction(u / picture.shape[0], v / picture.shape[0])
                total += trace(scene, self.frame[0], ray, pixel, draw)
            picture[y, x] += total


def photograph(camera: Camera, scene: Scene, shape: tuple[int, int], paths: int) -> np.ndarray:
    """The mean light of each pixel, of shape (height, width, 3)."""
    picture = tack.zeros(shape, tack.vec3)
    camera.take(picture, scene, paths, 0)
    return picture.numpy() / paths


# --------------------------------------------------------------------------------------------------- check and draw


def check() -> str:
    """Compare with a furnace, where light is known exactly, and with the shadow of a black ball, known in theory."""
    camera = Camera((0, 2, 6), (0, 1, 0), 0.4)
    places = [(-1.5, 1, 0), (0, 1, 0), (1.5, 1, 0)]
    white = Scene(places, [0.7] * 3, np.ones((3, 3)), [DIFFUSE, MIRROR, GLASS], floor=1.0)
    light = photograph(camera, white, (8, 12), 8)
    assert set(np.unique(light[..., 0] * 8)) <= set(range(9))  # each path brings all the light, or was cut
    assert light.mean() > 0.93
    grey = Scene([(0, 1, 0)], [0.9], [(0.25, 0.5, 0.75)], [DIFFUSE], floor=0.0)
    middle = photograph(Camera((0, 1, 6), (0, 1, 0), 0.02), grey, (4, 4), 64)
    # A convex ball sees no other surface but the floor, which is black: half of the light reaches its equator.
    assert np.allclose(middle.mean((0, 1)) / (0.25, 0.5, 0.75), 0.5, atol=0.06)
    radius, height = 1.0, 2.0
    dark = Scene([(0, height, 0)], [radius], np.zeros((1, 3)), [DIFFUSE], floor=1.0)
    below = Camera((3, 0.5, 0), (0, 0, 0), 0.005)
    found = float(photograph(below, dark, (16, 16), 32).mean())
    theory = 1 - (radius / height) ** 2
    assert abs(found - theory) < 0.02
    return f"a furnace conserves energy; below a ball there is {found:.3f} of the light, in theory {theory:.3f}"


def balls(count: int):
    """Three large balls, and small ones that do not touch: centres, radii, colours, kinds."""
    random = np.random.default_rng(8)
    centres, radii = [(-2.3, 1, 0), (0, 1, 0.4), (2.3, 1, 0)], [1.0, 1.0, 1.0]
    colours, kinds = [(0.85, 0.3, 0.2), (1, 1, 1), (0.95, 0.85, 0.6)], [DIFFUSE, GLASS, MIRROR]
    while len(centres) < count:
        radius = random.uniform(0.16, 0.36)
        centre = (random.uniform(-4.5, 4.5), radius, random.uniform(-3, 3.6))
        gaps = [math.dist(centre, c) - radius - r for c, r in zip(centres, radii, strict=True)]
        if min(gaps) > 0.05:
            hue = random.uniform(0, 2 * math.pi)
            centres.append(centre)
            radii.append(radius)
            colours.append(tuple(0.55 + 0.4 * math.cos(hue + k * 2 * math.pi / 3) for k in range(3)))
            kinds.append(random.choice([DIFFUSE, DIFFUSE, DIFFUSE, MIRROR, GLASS]))
    return centres, radii, colours, kinds


def main() -> None:
    print(check())
    scene = Scene(*balls(40), floor=0.75, sun=14.0, blue=1.0)
    camera = Camera((1.6, 2.3, 8.5), (0, 0.75, 0), 0.28)
    light = photograph(camera, scene, (360, 640), 64)
    axes = figure(10, 5.9)
    axes.imshow(np.clip(1 - np.exp(-0.9 * light), 0, 1) ** (1 / 2.2))
    axes.set(title="Sixty-four paths a pixel", xticks=[], yticks=[])
    save(axes, "path_tracer")


if __name__ == "__main__":
    main()
