"""Workgroups: lanes, barriers, control flow around collectives, device functions, several loops (GRP-*).

Most kernels here are also run as Python, a thread for each lane (`lanes_oracle`), and must leave the same in every
array.
"""

from __future__ import annotations

import numpy as np
import pytest

import tack
from lanes_oracle import run_lanes
from workgroup_rig import check, launch

TRIPS = (0, 1, 7, 8, 9, 31, 40)


def ints(n, start=0):
    return np.arange(start, start + n, dtype=np.int32)


def zeros(n, dtype=np.int32):
    return np.zeros(n, dtype)


# --- Lanes and barriers ---------------------------------------------------------------------------------------------


def lane_numbers(out, groups):
    for i in range(out.shape[0]):
        out[i] = tack.thread_id()
        groups[i] = i // 8


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_lanes_are_numbered_in_order(device, n):
    """GRP-1, GRP-3, GRP-7."""
    check(lane_numbers, 8, zeros(n), zeros(n))


def rotate(a, out):
    buf = tack.shared(8, tack.i32)
    n = a.shape[0]
    for i in range(n):
        t = tack.thread_id()
        first = i // 8 * 8
        count = min(8, n - first)
        buf[t] = a[i]
        tack.barrier()
        out[i] = buf[(t + 1) % count]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_a_barrier_orders_shared_memory(device, n):
    """GRP-2, GRP-4, GRP-5: every lane reads what its neighbour stored, in partial workgroups too."""
    check(rotate, 8, ints(n, 100), zeros(n))


def through_global(a, b, n):
    for i in range(n):
        a[i] = a[i] * 2 + i
        tack.barrier()
        b[i] = a[i // 8 * 8]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_a_barrier_orders_global_memory(device, n):
    """GRP-4."""
    check(through_global, 8, ints(n, 5), zeros(n), n)


def count_lanes(counter, n):
    for _ in range(n):
        tack.atomic_add(counter, 0, 1)
        tack.barrier()
        tack.atomic_add(counter, 1, 1)


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (0, 1, 255, 256, 257, 1000))
@pytest.mark.parametrize("group", (1, 64, 256, 1024))
def test_lanes_past_the_end_have_no_effects(device, n, group):
    """GRP-5, for any trip count and group."""
    counter = zeros(2, np.int64)
    launch(tack.kernel(count_lanes, group=group), counter, n)
    assert counter.tolist() == [n, n]


def flat_lanes(out, lanes, rows, columns):
    buf = tack.shared(8, tack.i32)
    for i, j in tack.ndrange((2, 2 + rows), columns):
        t = tack.thread_id()
        buf[t] = i * 100 + j
        tack.barrier()
        out[i - 2, j] = buf[0]
        lanes[i - 2, j] = t


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 5), (4, 8), (5, 3), (0, 4), (4, 0)])
def test_workgroups_of_an_ndrange_follow_the_flat_index(device, rows, columns):
    """GRP-1: the last index is fastest, and a workgroup may span rows."""
    shape = (rows, columns)
    check(flat_lanes, 8, np.zeros(shape, np.int32), np.zeros(shape, np.int32), rows, columns)


def strided(out, start, stop, step):
    buf = tack.shared(8, tack.i64)
    for i in range(start, stop, step):
        buf[tack.thread_id()] = i
        tack.barrier()
        out[i] = buf[0] * 100 + tack.thread_id()


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("bounds", [(0, 40, 1), (3, 40, 1), (2, 39, 3), (5, 5, 1), (9, 3, 2), (0, 1, 40)])
def test_ranges_with_a_start_and_a_step(device, bounds):
    """GRP-1: lanes count iterations, whatever the loop's variable is."""
    check(strided, 8, zeros(40, np.int64), *bounds)


def three_dimensions(out):
    for i, j, k in tack.ndrange(3, (1, 4), 5):
        tack.barrier()
        out[i, j - 1, k] = tack.thread_id()


@pytest.mark.requires("workgroups")
def test_three_dimensions(device):
    """GRP-1."""
    check(three_dimensions, 8, np.zeros((3, 3, 5), np.int32))


# --- Locals ---------------------------------------------------------------------------------------------------------


def keep_locals(a, out, n, bias):
    step = 3
    for i in range(n):
        x = a[i]
        bias = bias + x * step
        y = 0
        if x % 2 == 0:
            y = x + tack.thread_id()
        tack.barrier()
        step = step + 1
        x += 1
        tack.barrier()
        out[i] = x * 1000000 + y * 10000 + bias * 10 + step


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_locals_keep_their_values_across_barriers(device, n):
    """GRP-12: also parameters and locals from before the loop, of which every iteration has its own copy."""
    check(keep_locals, 8, ints(n), zeros(n, np.int64), n, 2)


def keep_arrays(a, out, n):
    for i in range(n):
        window = tack.local((2, 3), tack.i32)
        for k in range(6):
            window[k // 3, k % 3] = a[i] + k
        tack.barrier()
        window[1, 2] = window[0, 1] * 2
        tack.barrier()
        out[i] = window[1, 2] * 100 + window[1, 1] + window[0, 0] + window.shape[1]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_local_arrays_keep_their_elements_across_barriers(device, n):
    """GRP-12, MEM-6."""
    check(keep_arrays, 8, ints(n), zeros(n), n)


@tack.func
def add_to_all(values, amount):
    for k in range(len(values)):
        values[k] += amount


def pass_arrays(a, out, n):
    total = tack.shared(8, tack.i32)
    for i in range(n):
        mine = tack.local(4, tack.i32)
        for k in range(4):
            mine[k] = a[i] + k
        t = tack.thread_id()
        total[t] = 0
        tack.barrier()
        add_to_all(mine, 10)
        tack.barrier()
        if t == 0:
            add_to_all(total, 5)
        tack.barrier()
        out[i] = mine[0] * 100 + mine[3] + total[t]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (8, 16))
def test_local_and_shared_arrays_pass_by_reference(device, n):
    """GRP-2, GRP-12, FUNC-4."""
    check(pass_arrays, 8, ints(n), zeros(n), n)


# --- Control flow ---------------------------------------------------------------------------------------------------


def uniform_control(a, out, n, rounds, limit):
    buf = tack.shared(8, tack.i32)
    for i in range(n):
        t = tack.thread_id()
        total = 0
        for r in range(rounds):
            if r == limit:
                break
            if r % 3 == 1:
                continue
            buf[t] = a[i] + r
            tack.barrier()
            total += buf[0] * (r + 1)
            tack.barrier()
        k = 0
        while k < rounds:
            k += 2
            if k > 4:
                tack.barrier()
            else:
                total += k
        if n > 20:
            buf[t] = total
            tack.barrier()
            total = buf[0] + total
        else:
            total = -total
        out[i] = total


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (1, 8, 13, 24))
@pytest.mark.parametrize(("rounds", "limit"), [(0, 0), (1, 9), (5, 3), (7, 9)])
def test_collectives_under_uniform_control(device, n, rounds, limit):
    """GRP-6, GRP-11: ifs, loops, `break` and `continue` that are the same for the workgroup."""
    check(uniform_control, 8, ints(n), zeros(n), n, rounds, limit)


def skip_lanes(a, out, n):
    buf = tack.shared(8, tack.i32)
    for i in range(n):
        t = tack.thread_id()
        buf[t] = a[i]
        tack.barrier()
        if a[i] % 3 == 0:
            out[i] = -1
            continue
        x = buf[0]
        if a[i] % 3 == 1:
            if x > 10:
                out[i] = x
                continue
            x += 1
        out[i] = x * 10 + a[i]


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", TRIPS)
def test_continue_after_the_last_collective(device, n):
    """GRP-11: lanes may leave their iteration when no collective follows."""
    check(skip_lanes, 8, ints(n), zeros(n), n)


def skip_in_loop(a, out, n, rounds):
    for i in range(n):
        total = 0
        for r in range(rounds):
            tack.barrier()
            if (a[i] + r) % 2 == 0:
                if r == 3:
                    total += 100
                    continue
                total += 7
            elif r > 4:
                continue
            total += r
        out[i] = total


@pytest.mark.requires("workgroups")
def test_continue_in_a_loop_with_collectives(device):
    """GRP-11: the lanes meet again in the next iteration of the loop."""
    check(skip_in_loop, 8, ints(13), zeros(13), 13, 7)


def leave_early(a, out, n, stop):
    for i in range(n):
        out[i] = 1
        if stop > 3:
            continue
        tack.barrier()
        if i // 8 == stop:
            continue
        tack.barrier()
        out[i] = a[i] // stop


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("stop", (1, 2, 5))
def test_uniform_continue_of_the_parallel_loop(device, stop):
    """GRP-11: whole workgroups may leave."""
    check(leave_early, 8, ints(24), zeros(24), 24, stop)


def guarded(a, out, n, d):
    for i in range(n):
        tack.barrier()
        if d != 0:
            q = 100 // d
            tack.barrier()
            out[i] = a[i] + q


@pytest.mark.requires("workgroups")
def test_a_guard_is_kept_around_what_is_computed_once(device):
    """GRP-6, EVAL-9: a uniform division is not moved out of its guard."""
    check(guarded, 8, ints(9), zeros(9), 9, 0)
    check(guarded, 8, ints(9), zeros(9), 9, 7)


def order_of_uniform_values(a, out, n):
    for i in range(n):
        k = 1
        x = a[i] * k
        k = k + n
        y = a[i] * k
        tack.barrier()
        k = k * 2
        out[i] = x * 10000 + y * 10 + k


@pytest.mark.requires("workgroups")
def test_uniform_locals_change_in_program_order(device):
    """GRP-12: what is computed once for the workgroup is read as it was written, before and after."""
    check(order_of_uniform_values, 8, ints(13), zeros(13), 13)


def block_control(a, out, n):
    for i in range(n):
        most = tack.block_max(tack.f32(a[i]))
        rounds = 0
        while most > 3.0:
            most = tack.block_max(most - 5.0)
            rounds += 1
        out[i] = rounds


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (1, 8, 29))
def test_block_results_are_uniform(device, n):
    """GRP-6: a loop may depend on the result of a reduction."""
    check(block_control, 8, ints(n), zeros(n), n)


def by_workgroup(a, out, n):
    for i in range(n):
        if i // 8 % 2 == 0:
            tack.barrier()
            out[i] = a[i]
        if i >> 3 == 1:
            tack.barrier()
            out[i] = a[i] + 1000 * (i % 8)
        if i // 16 == 1:
            tack.barrier()
            out[i] += 5


@pytest.mark.requires("workgroups")
def test_the_number_of_the_workgroup_is_uniform(device):
    """GRP-7."""
    check(by_workgroup, 8, ints(45), zeros(45), 45)


# --- Expressions and device functions -------------------------------------------------------------------------------


def in_expressions(a, out, n):
    for i in range(n):
        x = tack.f32(a[i])
        y = x + tack.block_sum(x) * 2.0
        z = tack.block_sum(x) if n > 10 else -tack.block_max(x)
        w = 0 < tack.block_max(x) and tack.block_min(x) < 4
        a[i] = a[i] + int(tack.block_sum(1.0))
        if tack.block_sum(x) > 50:
            y += 1
        out[i] = int(y) * 10000 + int(z) * 10 + w


@pytest.mark.requires("workgroups")
@pytest.mark.parametrize("n", (1, 8, 13))
def test_reductions_inside_expressions(device, n):
    """GRP-11: in operands, in arms, in conditions, on the right of an augmented assignment."""
    check(in_expressions, 8, ints(n), zeros(n, np.int64), n)


def old_value_first(a, out, n):
    for i in range(n):
        t = tack.thread_id()
        out[i] = a[i // 8 * 8] + int(tack.block_sum(tack.f32(t)))
        a[i] = 1000
        tack.barrier()


@pytest.mark.requires("workgroups")
def test_what_stands_left_of_a_reduction_is_read_before_it(device):
    """GRP-11, EVAL-1."""
    check(old_value_first, 8, ints(16), zeros(16), 16)


@tack.func
def total_of(x, scratch):
    t = tack.thread_id()
    scratch[t] = x
    tack.barrier()
    total = 0
    for k in range(8):
        total += scratch[k]
    tack.barrier()
    return total


@tack.func
def twice(x, scratch):
    first = total_of(x, scratch)
    return first, total_of(x + 1, scratch) * 2


@tack.func
def lane_plus(x):
    return tack.thread_id() + x


@tack.func
def deeper(x):
    return lane_plus(x) * 10


def in_functions(a, out, n):
    scratch = tack.shared(8, tack.i32)
    for i in range(n):
        one, two = twice(a[i], scratch)
        out[i] = one * 1000 + two + total_of(deeper(1), scratch) + deeper(a[i])


@pytest.mark.requires("workgroups")
def test_collectives_and_lane_numbers_in_device_functions(device):
    """GRP-3, GRP-11: inlined through any depth, each call with locals of its own."""
    check(in_functions, 8, ints(16), zeros(16), 16)


# --- Several loops --------------------------------------------------------------------------------------------------


def several_loops(a, b, c, n):
    first = tack.shared(8, tack.i32)
    for i in range(n):
        first[tack.thread_id()] = a[i]
        tack.barrier()
        b[i] = first[0]
    for i in range(n):
        b[i] += 1
    second = tack.shared((2, 8), tack.i32)
    for j in range(n):
        t = tack.thread_id()
        first[t] = b[j]
        second[0, t] = b[n - 1 - j]
        second[1, t] = t
        tack.barrier()
        c[j] = first[0] * 100 + second[0, 0] * 10 + second[1, 7 - t]


@pytest.mark.requires("workgroups")
def test_several_loops_in_one_kernel(device):
    """GRP-13, LOOP-2: with shared arrays and without, in order."""
    check(several_loops, 8, ints(16), zeros(16), zeros(16), 16)


@tack.kernel(group=64)
def with_result(a, out):
    for i in range(a.shape[0]):
        s = tack.block_sum(a[i])
        if tack.thread_id() == 0:
            out[i // 64] = s
    return a.shape[0]


@pytest.mark.requires("workgroups")
def test_a_result_after_the_loops(device):
    """CALL-2, GRP-1."""
    out = np.zeros(2, np.float32)
    assert launch(with_result, np.ones(100, np.float32), out) == 100
    assert out.tolist() == [64.0, 36.0]


@pytest.mark.requires("workgroups")
def test_many_workgroups_on_threads(device):
    """GRP-1: more workgroups than threads, each with its own shared array."""
    n = 1 << 18 if device.name != "reference" else 1 << 9
    a, out = np.arange(n, dtype=np.int32), np.zeros(n, np.int32)
    launch(tack.kernel(reversed_groups), a, out)
    assert np.array_equal(out.reshape(-1, 256), a.reshape(-1, 256)[:, ::-1])


def reversed_groups(a, out):
    for i in range(a.shape[0]):
        buf = tack.shared(256, tack.i32)
        t = tack.thread_id()
        buf[t] = a[i]
        tack.barrier()
        out[i] = buf[255 - t]


# --- What is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "error", "text"),
    [
        (3, ValueError, "a power of two, at most 1024"),
        (0, ValueError, "a power of two, at most 1024"),
        (2048, ValueError, "a power of two, at most 1024"),
        (-8, ValueError, "a power of two, at most 1024"),
        (64.0, TypeError, "takes an integer, not float"),
        (True, TypeError, "takes an integer, not bool"),
    ],
)
def test_groups_that_are_refused(group, error, text):
    """GRP-1, at decoration."""
    with pytest.raises(error, match=text):
        tack.kernel(group=group)(lane_numbers)


# --- The oracle itself ----------------------------------------------------------------------------------------------


def rotate_back(a, out):
    buf = tack.shared(8, tack.i32)
    n = a.shape[0]
    for i in range(n):
        t = tack.thread_id()
        first = i // 8 * 8
        count = min(8, n - first)
        buf[t] = a[i]
        tack.barrier()
        out[i] = buf[(t - 1) % count]


def test_the_oracle_has_an_opinion_of_its_own():
    """The negative control: it gives what a person computes, and a kernel that reads another neighbour fails."""
    want = zeros(8)
    run_lanes(rotate, 8, ints(8), want)
    assert want.tolist() == [1, 2, 3, 4, 5, 6, 7, 0]
    check(rotate, 8, ints(9), zeros(9), oracle=rotate)
    with pytest.raises(AssertionError), tack.device("cpu"):
        check(rotate, 8, ints(9), zeros(9), oracle=rotate_back)
