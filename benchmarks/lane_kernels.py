"""Kernels that show what lanes are good for and where they could lose, after the names of what they do."""

import tack
from tack import f32, f64, i32, i64, u32


@tack.kernel
def saxpy(n, a: f32, x, y):
    for i in range(n):
        y[i] = a * x[i] + y[i]


@tack.kernel
def mandel(h, w, lim: i32, out):
    for i, j in tack.ndrange(h, w):
        cx = f32(j) * (3.0 / f32(w)) - 2.0
        cy = f32(i) * (2.5 / f32(h)) - 1.25
        x = f32(0.0)
        y = f32(0.0)
        k = 0
        while k < lim and x * x + y * y <= 4.0:
            t = x * x - y * y + cx
            y = 2.0 * x * y + cy
            x = t
            k += 1
        out[i * w + j] = k


@tack.kernel
def nbody(n, eps: f32, x, y, z, m, ax, ay, az):
    for i in range(n):
        xi = x[i]
        yi = y[i]
        zi = z[i]
        sx = f32(0.0)
        sy = f32(0.0)
        sz = f32(0.0)
        for j in range(n):
            dx = x[j] - xi
            dy = y[j] - yi
            dz = z[j] - zi
            r2 = dx * dx + dy * dy + dz * dz + eps
            inv = 1.0 / tack.sqrt(r2)
            f = m[j] * inv * inv * inv
            sx += dx * f
            sy += dy * f
            sz += dz * f
        ax[i] = sx
        ay[i] = sy
        az[i] = sz


@tack.kernel
def nbody_aos(n, eps: f32, p, a):
    for i in range(n):
        xi = p[3 * i]
        yi = p[3 * i + 1]
        zi = p[3 * i + 2]
        sx = f32(0.0)
        sy = f32(0.0)
        sz = f32(0.0)
        for j in range(n):
            dx = p[3 * j] - xi
            dy = p[3 * j + 1] - yi
            dz = p[3 * j + 2] - zi
            r2 = dx * dx + dy * dy + dz * dz + eps
            f = 1.0 / (r2 * tack.sqrt(r2))
            sx += dx * f
            sy += dy * f
            sz += dz * f
        a[3 * i] = sx
        a[3 * i + 1] = sy
        a[3 * i + 2] = sz


@tack.kernel
def jacobi(h, w, a, b):
    for i, j in tack.ndrange((1, h - 1), (1, w - 1)):
        b[i * w + j] = 0.25 * (a[(i - 1) * w + j] + a[(i + 1) * w + j] + a[i * w + j - 1] + a[i * w + j + 1])


@tack.kernel
def stencil3(d, h, w, a, b):
    for i, j, k in tack.ndrange((1, d - 1), (1, h - 1), (1, w - 1)):
        c = (i * h + j) * w + k
        b[c] = 0.4 * a[c] + 0.1 * (a[c - 1] + a[c + 1] + a[c - w] + a[c + w] + a[c - w * h] + a[c + w * h])


@tack.kernel
def hash32(n, x, out):
    for i in range(n):
        h = x[i]
        h = h ^ (h >> 16)
        h = h * u32(2246822507)
        h = h ^ (h >> 13)
        h = h * u32(3266489909)
        out[i] = h ^ (h >> 16)


@tack.kernel
def matmul(n, a, b, c):
    for i, j in tack.ndrange(n, n):
        s = f32(0.0)
        for k in range(n):
            s += a[i * n + k] * b[k * n + j]
        c[i * n + j] = s


@tack.kernel
def interp(n, t, q, out):
    for i in range(n):
        k = i64(q[i])
        f = q[i] - f32(k)
        out[i] = t[k] + f * (t[k + 1] - t[k])


@tack.kernel
def branchy(n, x, out):
    for i in range(n):
        v = x[i]
        if v < 0.2:
            r = v * v + 1.0
        elif v < 0.7:
            r = tack.sqrt(v) * 0.5 + 1.0 / (v + 1.0)
        else:
            r = v
            for _ in range(8):
                r = r * v + 0.25
        out[i] = r


@tack.kernel
def collatz(n, out):
    for i in range(n):
        x = i + 1
        k = 0
        while x != 1:
            if x % 2 == 0:
                x = x // 2
            else:
                x = 3 * x + 1
            k += 1
        out[i] = k


@tack.kernel
def floordiv(n, a, b, out):
    for i in range(n):
        out[i] = a[i] // b[i] if b[i] != 0 else 0


@tack.kernel
def floordiv64(n, a, b, out):
    for i in range(n):
        out[i] = a[i] // b[i] if b[i] != 0 else 0


@tack.kernel
def poly64(n, x, out):
    for i in range(n):
        v = x[i]
        s = 0.0 * v
        for k in range(24):
            s = s * v + f64(k)
        out[i] = s / (1.0 + tack.sqrt(v))


@tack.kernel
def ragged(n, first, x, out):
    for i in range(n):
        s = f32(0.0)
        for k in range(first[i], first[i + 1]):
            s += x[k]
        out[i] = s


@tack.kernel
def scatter(n, p, x, out):
    for i in range(n):
        out[p[i]] = x[i] * 2.0


@tack.kernel
def hist(n, x, h):
    for i in range(n):
        tack.atomic_add(h, i64(x[i] & u32(255)), 1)


@tack.kernel
def expk(n, x, out):
    for i in range(n):
        out[i] = tack.exp(x[i]) if x[i] > 0.0 else x[i]


@tack.kernel
def diverge(n, x, out):
    for i in range(n):
        r = f32(x[i] & 255) * 0.01
        c = x[i] & 7
        if c == 0:
            for _ in range(60):
                r = r * 0.9 + 0.1
        elif c == 1:
            for _ in range(60):
                r = r / 1.1 + 0.2
        elif c == 2:
            for _ in range(60):
                r = tack.sqrt(r) + 0.3
        elif c == 3:
            for _ in range(60):
                r = r - r * r * 0.4
        elif c == 4:
            for _ in range(60):
                r = r * r * 0.5 + 0.5
        elif c == 5:
            for _ in range(60):
                r = 1.0 / (r + 0.6)
        elif c == 6:
            for _ in range(60):
                r = abs(r - 0.7)
        else:
            for _ in range(60):
                r = (r + 0.8) * 0.5
        out[i] = r


@tack.kernel
def rare_mul(n, x, out):
    for i in range(n):
        r = f32(x[i] & 255) * 0.01
        if x[i] & 63 == 0:
            for _ in range(100):
                r = r * 0.9 + 0.1
        out[i] = r


@tack.kernel
def rare_div(n, x, out):
    for i in range(n):
        r = f32(x[i] & 255) * 0.01
        if x[i] & 63 == 0:
            for _ in range(100):
                r = 1.0 / (r + 0.6) + 1.0 / (r + 0.7) + tack.sqrt(r)
        out[i] = r


@tack.kernel
def rare_chase(n, x, t, out):
    for i in range(n):
        k = x[i] & 1023
        if x[i] & 63 == 0:
            for _ in range(100):
                k = (t[k] + 1) & 1023
        out[i] = k


@tack.kernel
def rare_mod64(n, x, m, out):
    for i in range(n):
        k = i64(x[i])
        if x[i] & 63 == 0:
            for s in range(100):
                k = (k * 31 + s) % m[s & 15]
        out[i] = k


@tack.kernel
def gcd64(n, x, y, out):
    for i in range(n):
        a = x[i]
        b = y[i]
        while b != 0:
            t = a % b
            a = b
            b = t
        out[i] = a


KERNELS = (
    saxpy,
    mandel,
    nbody,
    nbody_aos,
    jacobi,
    stencil3,
    hash32,
    matmul,
    interp,
    branchy,
    collatz,
    floordiv,
    floordiv64,
    poly64,
    ragged,
    scatter,
    hist,
    expk,
    diverge,
    rare_mul,
    rare_div,
    rare_chase,
    rare_mod64,
    gcd64,
)
