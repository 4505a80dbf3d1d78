"""Compiled loops for worlds with a memory: a pool of spares, ageing nodes, lemons.

What happens next depends here on more than one failure's draws. State lives in arrays that a batch
or run owns: a heap of times with counts (nodes that come back at a time), and a few numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from checkpoint_tax.compilation import kernel

NOW, SIZE, FREE, MISSING = range(4)
"""Numbers of a pool: wall time, entries in the heap, free spares, nodes the job lacks."""


class Pool(NamedTuple):
    """Spares and repairs: `spares` below 0 for a pool that is never short."""

    spares: int
    n_nodes: int
    shrinks: int
    most_missing: float


@kernel
def sift_down(times, counts, size):
    """Restore a heap, least time on top, after its top was replaced."""
    i = 0
    time, count = times[0], counts[0]
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        if child + 1 < size and times[child + 1] < times[child]:
            child += 1
        if times[child] >= time:
            break
        times[i], counts[i] = times[child], counts[child]
        i = child
    times[i], counts[i] = time, count


@kernel
def push(times, counts, size, time, count):
    """Add an entry to a heap of `size` entries."""
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if times[parent] <= time:
            break
        times[i], counts[i] = times[parent], counts[parent]
        i = parent
    times[i], counts[i] = time, count


@kernel
def _take_back(numbers, times, counts):
    """Move the nodes that come back first to the free spares."""
    size = np.int64(numbers[SIZE]) - 1
    numbers[FREE] += counts[0]
    numbers[SIZE] = size
    if size > 0:
        times[0], counts[0] = times[size], counts[size]
        sift_down(times, counts, size)


@kernel
def fill_pool(pool, numbers):
    """Start with every spare free and a whole job."""
    numbers[:] = 0.0
    numbers[FREE] = pool.spares


@kernel
def replace_nodes(pool, numbers, times, counts, lost, repair):
    """Replace `lost` nodes from the pool, waiting if it must; returns the wait.

    Nodes still missing from before are asked for too. The lost ones come back together after
    `repair` seconds.
    """
    now = numbers[NOW]
    # A shrunk job cannot lose more nodes than it has.
    lost = min(lost, pool.n_nodes - numbers[MISSING])
    while numbers[SIZE] > 0.0 and times[0] <= now:
        _take_back(numbers, times, counts)
    if lost > 0.0:
        push(times, counts, np.int64(numbers[SIZE]), now + repair, lost)
        numbers[SIZE] += 1.0
    missing = numbers[MISSING] + lost
    allowed = pool.most_missing if pool.shrinks else 0.0
    wait = 0.0
    while missing - numbers[FREE] > allowed:
        wait = max(times[0] - now, wait)
        _take_back(numbers, times, counts)
    used = min(numbers[FREE], missing)
    numbers[FREE] -= used
    numbers[MISSING] = missing - used
    numbers[NOW] = now + wait
    return wait


@kernel
def pass_time(pool, numbers, times, counts, seconds):
    """Train for what takes a whole job `seconds`; returns what missing nodes add to it.

    With m of n nodes missing everything takes n / (n - m) as long; nodes that come back join at
    once.
    """
    left = seconds
    added = 0.0
    while numbers[MISSING] > 0.0 and left > 0.0:
        pace = (pool.n_nodes - numbers[MISSING]) / pool.n_nodes
        until = max(times[0] - numbers[NOW], 0.0)
        if until * pace >= left:
            numbers[NOW] += left / pace
            return added + (left / pace - left)
        numbers[NOW] += until
        left -= until * pace
        added += until - until * pace
        _take_back(numbers, times, counts)
        joined = min(numbers[FREE], numbers[MISSING])
        numbers[FREE] -= joined
        numbers[MISSING] -= joined
    numbers[NOW] += left
    return added


@kernel
def superpose(due, counts, lives, out):
    """Fill `out` with the gaps between the failures of nodes, each renewed when it fails.

    `due` is a heap of the nodes' next failures, counted from the last failure of the block before;
    `lives` holds the life of each node that replaces a failed one.
    """
    now = 0.0
    for i in range(out.shape[0]):
        time = due[0]
        # Read before written: `lives` and `out` may be one array.
        life = lives[i]
        out[i] = time - now
        now = time
        due[0] = time + life
        sift_down(due, counts, due.shape[0])
    for i in range(due.shape[0]):
        due[i] -= now


@kernel
def heapify(times, counts):
    """Order any array of times as a heap, by pushing them one after the other."""
    for i in range(times.shape[0]):
        push(times, counts, i, times[i], counts[i])


class Lemons(NamedTuple):
    """Rates of nodes that fail more often: `rate` of a sound node [1/s], 0 for none."""

    rate: float
    share: float
    factor: float
    sound_share: float


@kernel
def _turn(lemons, n_nodes, struck, who, again):
    """Fail one node, chosen by rate with `who` in (0, 1); `struck` counts lemons by strikes."""
    bad = 0
    for k in range(struck.shape[0]):
        bad += struck[k]
    sound = n_nodes - bad
    place = who * (sound + lemons.factor * bad)
    if place < sound or bad == 0:
        if again < lemons.share:
            struck[0] += 1
        return
    place = (place - sound) / lemons.factor
    last = struck.shape[0] - 1
    k = 0
    while k < last and (place >= struck[k] or struck[k] == 0):
        place -= struck[k]
        k += 1
    if struck[k] == 0:
        # Rounding at the upper end: the last strike that any lemon has.
        while struck[k] == 0:
            k -= 1
    struck[k] -= 1
    if k < last:
        struck[k + 1] += 1
    elif again < lemons.share:
        struck[0] += 1


@kernel
def lemon_gaps(lemons, n_nodes, struck, standard, who, again):
    """Turn standard exponential values into gaps at the present rate, one failure after another."""
    for i in range(standard.shape[0]):
        bad = 0
        for k in range(struck.shape[0]):
            bad += struck[k]
        standard[i] /= lemons.rate * (n_nodes - bad + lemons.factor * bad)
        _turn(lemons, n_nodes, struck, who[i], again[i])


@kernel
def place_lemon(lemons, struck, draw):
    """Make one node what a node is in the long run: sound, or a lemon with some strikes."""
    if draw < lemons.sound_share:
        return
    strikes = struck.shape[0]
    k = np.int64((draw - lemons.sound_share) / (1.0 - lemons.sound_share) * strikes)
    struck[min(k, strikes - 1)] += 1


@kernel
def fail_any(lemons, n_nodes, struck, draw, who, again):
    """Add the node that has just failed: each kind in proportion to how often it fails.

    Seen at a failure, the other nodes are as in the long run, and the failed one was drawn by rate.
    """
    bad_share = 1.0 - lemons.sound_share
    bad_weight = lemons.factor * bad_share
    strikes = struck.shape[0]
    if draw * (lemons.sound_share + bad_weight) < lemons.sound_share:
        if again < lemons.share:
            struck[0] += 1
        return
    k = min(np.int64(who * strikes), strikes - 1)
    if k < strikes - 1:
        struck[k + 1] += 1
    elif again < lemons.share:
        struck[0] += 1
