"""Exact rollback of AdamW: what a step forgets, recorded where it is made, and used to undo it.

The formula that undoes a step cannot be exact, because a step maps many earlier states to one
later state. The training side, which holds both, records with each gradient which of them it was;
`record` does so in about one bit per element, and `roll_back` then restores every bit of the
weights and of both moments, through any spike and without a gate. Records are lossless whatever
arithmetic the trainer used: see `reconcile.correction_kernels`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile import correction_kernels as kernels
from checkpoint_tax.reconcile.errors import BadWindow, MissingUpdate, StepMismatch
from checkpoint_tax.reconcile.optimizers import AdamState
from checkpoint_tax.reconcile.replay import (
    Variant,
    decay_runs,
    flat_float32,
    gradient_addresses,
    share_out,
    step_row,
)
from checkpoint_tax.reconcile.updates import Update, whole

__all__ = ["Corrections", "record", "roll_back"]

_PORTABLE = Variant()
"""The order of operations that guesses use: the same on every machine."""

_HEADER = struct.Struct("<4sIQQII")
_MAGIC = b"AwC1"
_PAD = 16
"""Bytes after the last chunk: codes are read a word at a time."""


@dataclass(frozen=True, eq=False)
class Corrections:
    """Record of what one step of one shard forgot.

    Attributes
    ----------
    step : int
        The step count after the update that it belongs to.
    size : int
        Elements of the shard.
    lengths : ndarray of int64
        Bytes of each chunk's record.
    payload : ndarray of uint8
        The chunks' records, one after the other, and some bytes of padding.
    """

    step: int
    size: int
    lengths: NDArray[np.int64]
    payload: NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """Bytes that have to be shipped."""
        return _HEADER.size + 4 * self.lengths.size + int(self.lengths.sum())

    @property
    def bits_per_element(self) -> float:
        """Bits shipped per element of the shard; 0 for an empty one."""
        return 8 * self.nbytes / self.size if self.size else 0.0

    def to_bytes(self) -> bytes:
        """The record in the form in which it is shipped.

        Returns
        -------
        bytes
            `nbytes` of them, with a checksum.
        """
        body = self.lengths.astype("<u4").tobytes() + self.payload[:-_PAD].tobytes()
        head = _HEADER.pack(
            _MAGIC, self.lengths.size, self.step, self.size, len(body), zlib.crc32(body)
        )
        return head + body

    @classmethod
    def from_bytes(cls, data: bytes) -> Corrections:
        """Read a shipped record.

        Parameters
        ----------
        data : bytes
            What `to_bytes` gave.

        Returns
        -------
        Corrections
            The record.

        Raises
        ------
        BadWindow
            If the data is no record, was cut short or was changed.
        """
        body = data[_HEADER.size :]
        if len(data) < _HEADER.size or data[:4] != _MAGIC:
            raise BadWindow(f"corrections of {len(data)} bytes are no record; allowed: AwC1 data")
        _, chunks, step, size, length, checksum = _HEADER.unpack_from(data)
        if len(body) != length or zlib.crc32(body) != checksum:
            raise BadWindow(
                f"corrections of step {step} hold {len(body)} bytes that do not match their"
                f" checksum; allowed: {length} unchanged bytes"
            )
        lengths = np.frombuffer(body, "<u4", chunks).astype(np.int64)
        payload = np.zeros(length - 4 * chunks + _PAD, np.uint8)
        payload[:-_PAD] = np.frombuffer(body, np.uint8, offset=4 * chunks)
        return cls(step, size, lengths, payload)


def _chunks(runs: Sequence[tuple[int, int, Any]]) -> list[NDArray[np.int64]]:
    """Edges of the chunks of each run."""
    return [
        np.append(np.arange(start, stop, kernels.CHUNK), stop).astype(np.int64)
        for start, stop, _ in runs
        if stop > start
    ]


def _flat(state: AdamState, size: int) -> list[NDArray[np.float32]]:
    return [flat_float32(name, a, size) for name, a in zip("pmv", state[:3], strict=True)]


def record(
    before: AdamState, after: AdamState, update: Update, *, threads: int | None = None
) -> Corrections:
    """Record what one step forgot.

    Parameters
    ----------
    before, after : AdamState
        The shard before and after the step, as the trainer holds them: float32.
    update : Update
        The step.
    threads : int or None
        Threads to use; None for as many as the process may run on. No bit depends on it.

    Returns
    -------
    Corrections
        From which, with ``after`` and ``update``, every bit of ``before`` follows.

    Raises
    ------
    StepMismatch
        If the states are not the ones around the update.
    BadUpdate, BadWindow
        If sizes or types do not fit.
    """
    if update.skipped:
        raise StepMismatch(
            f"step {update.step} was skipped and forgets nothing; allowed: an update that was made"
        )
    if (before.t, after.t) != (update.step - 1, update.step):
        raise StepMismatch(
            f"states at steps {before.t} and {after.t} around update {update.step}; allowed:"
            f" {update.step - 1} and {update.step}"
        )
    size = before.p.size
    truth = [a.view(np.int32) for a in _flat(before, size)]
    later = _flat(after, size)
    (gradient,), _ = gradient_addresses([update], size)
    runs = decay_runs([update], size)
    lengths: list[NDArray[np.int64]] = []
    payload: list[NDArray[np.uint8]] = []
    for edges, (_, _, (decay,)) in zip(_chunks(runs), runs, strict=False):
        row = step_row(update, decay, _PORTABLE)

        def work(
            first: int,
            end: int,
            edges: NDArray[np.int64] = edges,
            row: NDArray[np.float32] = row,
        ) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
            length = np.zeros(end - first, np.int64)
            # Only the pages that are written to become memory.
            out = np.empty(kernels.WORST_BYTES * (end - first), np.uint8)
            used = kernels.encode_range(
                *truth, *later, gradient, row, edges[first : end + 1], out, length
            )
            return length, out[:used]

        for length, out in share_out(edges.size - 1, threads, work, unit=1):
            lengths.append(length)
            payload.append(out)
    payload.append(np.zeros(_PAD, np.uint8))
    return Corrections(
        update.step,
        size,
        np.concatenate([np.zeros(0, np.int64), *lengths]),
        np.concatenate(payload),
    )


def roll_back(
    state: AdamState,
    updates: Sequence[Update],
    corrections: Mapping[int, Corrections],
    *,
    threads: int | None = None,
) -> AdamState:
    """Undo updates exactly, all of them in one pass over memory.

    Parameters
    ----------
    state : AdamState
        The shard after the last update, float32.
    updates : sequence of Update
        The steps to undo, in the order in which they were made.
    corrections : mapping of int to Corrections
        The record of each step that was not skipped.
    threads : int or None
        Threads to use; None for as many as the process may run on. No bit depends on it.

    Returns
    -------
    AdamState
        The shard before the first update, bit for bit.

    Raises
    ------
    StepMismatch
        If the updates do not end at the state.
    MissingUpdate
        If a step's record is not there.
    BadUpdate, BadWindow
        If sizes or types do not fit.
    """
    t = whole("t", state.t, at_least=0)
    undone = []
    for update in reversed(updates):
        if update.step != t:
            raise StepMismatch(
                f"update at step {update.step} cannot be undone from step {t}; allowed: step {t}"
            )
        if not update.skipped:
            undone.append(update)
            t -= 1
    size = state.p.size
    old = tuple(_flat(state, size))
    new = tuple((np.empty_like if undone else np.copy)(a) for a in old)
    group: list[Update] = []
    edges: list[NDArray[np.int64]] = []
    for update in undone:
        if update.step not in corrections:
            raise MissingUpdate(
                f"step {update.step} has no corrections; allowed: a record per step to undo"
            )
        found = _chunks(decay_runs([update], size))
        found_record = corrections[update.step]
        chunks = sum(e.size - 1 for e in found)
        if (found_record.size, found_record.lengths.size) != (size, chunks):
            raise BadWindow(
                f"corrections of step {update.step} are for {found_record.size} elements in"
                f" {found_record.lengths.size} chunks; allowed: {size} in {chunks}"
            )
        # Records start afresh where the weight decay changes; one pass needs equal starts.
        if group and not _same(edges, found):
            _undo(old, new, group, corrections, edges, threads)
            group, old = [], new
        group.append(update)
        edges = found
    if group:
        _undo(old, new, group, corrections, edges, threads)
    p, m, v = new
    shape = state.p.shape
    return AdamState(p.reshape(shape), m.reshape(shape), v.reshape(shape), t)


def _same(a: Sequence[NDArray[np.int64]], b: Sequence[NDArray[np.int64]]) -> bool:
    return len(a) == len(b) and all(map(np.array_equal, a, b))


def _undo(
    old: Sequence[NDArray[np.float32]],
    new: Sequence[NDArray[np.float32]],
    updates: Sequence[Update],
    corrections: Mapping[int, Corrections],
    edges: Sequence[NDArray[np.int64]],
    threads: int | None,
) -> None:
    size = old[0].size
    kept, gradients = gradient_addresses(updates, size)
    records = np.empty((len(updates), sum(e.size - 1 for e in edges)), np.uintp)
    for k, update in enumerate(updates):
        found = corrections[update.step]
        starts = np.concatenate([[0], np.cumsum(found.lengths)[:-1]])
        records[k] = (found.payload.ctypes.data + starts).astype(np.uintp)
    runs = [run for run in decay_runs(updates, size) if run[1] > run[0]]
    done = 0
    for ends, (_, _, decays) in zip(edges, runs, strict=True):
        rows = np.stack(
            [step_row(u, decay, _PORTABLE) for u, decay in zip(updates, decays, strict=True)]
        )
        here = records[:, done : done + ends.size - 1]
        done += ends.size - 1

        def work(
            first: int,
            end: int,
            ends: NDArray[np.int64] = ends,
            rows: NDArray[np.float32] = rows,
            here: NDArray[np.uintp] = here,
        ) -> None:
            kernels.decode_range(
                *old,
                *new,
                gradients,
                rows,
                np.ascontiguousarray(here[:, first:end]),
                ends[first : end + 1],
            )

        share_out(ends.size - 1, threads, work, unit=1)
    del kept
