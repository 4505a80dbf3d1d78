"""The detector on files that want to harm it, or that are broken: it runs nothing, and says why."""

import contextlib
import copyreg
import inspect
import os
import pickle
import pickletools
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import checkpoint_writers as write
import numpy as np
import pytest

from checkpoint_tax import cli
from checkpoint_tax.reconcile import inspect_pickle
from checkpoint_tax.reconcile.inspect import (
    ForbiddenGlobal,
    Inspection,
    UnreadableState,
    inspect_checkpoint,
)
from checkpoint_tax.reconcile.inspect_pickle import HARMLESS_NAMES, read_pickle

STATE = {
    "model": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)},
    "optim": {
        "state": {
            "w": {
                "step": np.float32(3),
                "exp_avg": np.zeros((2, 3), np.float32),
                "exp_avg_sq": np.ones((2, 3), np.float32),
            }
        },
        "param_groups": [{"lr": 0.1, "betas": (0.9, 0.95), "params": ["w"]}],
    },
}


def payload(witness: Path) -> write.Call:
    """Return what makes an ordinary unpickler write a file."""
    return write.Call(write.Name("os", "system"), (f"touch {witness}",))


def _in_distributed_metadata(folder: Path, witness: Path) -> Path:
    write.distributed(folder, STATE)
    (folder / ".metadata").write_bytes(write.dumps(payload(witness)))
    return folder


HOSTILE = {
    "torch.save": lambda p, w: _written(p, write.archive({**STATE, "extra": payload(w)})),
    "torch.save before 1.6": lambda p, w: _written(p, write.legacy({**STATE, "extra": payload(w)})),
    "bare pickle": lambda p, w: _written(p, write.dumps(payload(w))),
    "distributed, .metadata": _in_distributed_metadata,
    "distributed, an item": lambda p, w: write.distributed(p, {**STATE, "extra": payload(w)}),
}


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_the_payload_is_real(tmp_path: Path) -> None:
    witness = tmp_path / "witness"
    pickle.loads(write.dumps(payload(witness)))
    assert witness.exists()


@pytest.mark.parametrize("form", HOSTILE)
def test_a_hostile_pickle_is_refused_and_not_run(
    tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    witness = tmp_path / "witness"
    path = HOSTILE[form](tmp_path / "state", witness)
    with pytest.raises(ForbiddenGlobal, match=r"it names os\.system, which is not among"):
        inspect_checkpoint(path)
    assert cli.main(["inspect", str(path)]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "os.system" in err
    assert str(path) in err
    assert not witness.exists()


@pytest.mark.parametrize(
    "name",
    [
        ("builtins", "eval"),
        ("builtins", "getattr"),
        ("builtins", "__import__"),
        ("torch.hub", "load"),
        ("torch._utils", "_rebuild_tensor_v2.__globals__"),
        ("collections", "OrderedDict.__init__"),
        ("numpy", "load"),
        ("checkpoint_tax.reconcile.inspect_pickle", "io.open"),
    ],
)
def test_a_name_outside_the_table_is_named(name: tuple[str, str]) -> None:
    module, attribute = (text.encode() for text in name)
    in_protocol_2 = b"\x80\x02c" + module + b"\n" + attribute + b"\n."
    lengths = [bytes([len(text)]) for text in (module, attribute)]
    in_protocol_4 = (
        b"\x80\x04\x8c" + lengths[0] + module + b"\x8c" + lengths[1] + attribute + b"\x93."
    )
    for data in (in_protocol_2, in_protocol_4):
        with pytest.raises(ForbiddenGlobal, match="it names " + ".".join(name)):
            read_pickle(data)


def test_a_registered_extension_is_no_way_around_the_table() -> None:
    """Once some code has used an extension, Python's reader hands its object out unasked."""
    data = b"\x80\x02\x82\xf1."
    copyreg.add_extension("os", "system", 0xF1)
    try:
        assert pickle.loads(data) is os.system
        with pytest.raises(UnreadableState, match="extension code 241"):
            read_pickle(data)
    finally:
        copyreg.remove_extension("os", "system", 0xF1)


def test_every_harmless_name_leads_to_this_module_alone() -> None:
    for name, stand_in in HARMLESS_NAMES.items():
        kind = stand_in if isinstance(stand_in, type) else type(stand_in)
        assert kind.__module__ == inspect_pickle.__name__, name
        if isinstance(stand_in, inspect_pickle._Function):
            assert stand_in._call.__module__ == inspect_pickle.__name__, name
    assert not any(inspect.ismodule(stand_in) for stand_in in HARMLESS_NAMES.values())


def test_no_stand_in_can_be_changed_by_a_pickle() -> None:
    """BUILD on a class or a function sets attributes on it; here it must not."""
    fields = [{"field": 1}, {"_call": 1}, {"name": "x"}]
    states = [*fields, *((None, field) for field in fields)]
    for name, stand_in in HARMLESS_NAMES.items():
        for state in states:
            built = write.dumps(write.Name(*name))[:-1] + write.dumps(state)[2:-1] + b"b."
            with pytest.raises(UnreadableState):
                read_pickle(built)
        assert getattr(stand_in, "field", None) != 1, name
        assert getattr(stand_in, "_call", None) != 1, name
        assert getattr(stand_in, "name", "") != "x", name


def test_no_description_of_a_tensor_can_be_changed_by_a_pickle() -> None:
    """A shape or stride set behind the checks would read beside the file's bytes."""
    pid = ("storage", write.Name("torch", "FloatStorage"), "0", "cpu", 4)
    storage = write.Pointer(pid)
    rebuild = write.Name("torch._utils", "_rebuild_tensor_v2")
    view = write.Call(rebuild, (storage, 0, (4,), (1,), False, None))
    assert read_pickle(write.dumps(view)).shape == (4,)
    for target in (storage, view):
        for state in ({"shape": (-9,), "n_elements": 9}, (None, {"shape": (-9,), "n_elements": 9})):
            with pytest.raises(UnreadableState):
                read_pickle(write.dumps(target)[:-1] + write.dumps(state)[2:-1] + b"b.")
    for shape, stride in (((-4,), (1,)), ((4,), (-1,)), ((4.0,), (1,)), ((4,), (1, 1))):
        with pytest.raises(UnreadableState):
            read_pickle(write.dumps(write.Call(rebuild, (storage, 0, shape, stride, False, None))))


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr\xff\xff\xff\x7f.",  # memo place 2^31 - 1: 32 GiB in the compiled reader
        b"\x80\x02X\xff\xff\xff\xff",  # a text of 4 GiB
        b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",  # bytes of 8 EiB
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f",  # a frame of 8 EiB
        b"\x80\x02" + b"(" * 100_000,
        b"\x80\x02" + b"]" * 5000 + b"a" * 4999 + b".",
        b"\x80\x02\x82\x01.",  # an extension code
        b"\x80\x7f.",
        b"",
        b".",
        b"\x80\x02(]K\x01a.",
        b"\x80\x02ccollections\nOrderedDict\n)\x81}(K\x01Nub.",
    ],
)
def test_a_pickle_that_asks_for_too_much_ends_soon(data: bytes) -> None:
    with contextlib.suppress(UnreadableState):
        read_pickle(data)


def test_a_pickle_cannot_ask_for_memory_that_it_does_not_fill() -> None:
    place = struct.pack("<I", 2**22)  # 64 MiB of memo in the compiled reader
    tracemalloc.start()
    try:
        assert read_pickle(b"\x80\x02Nr" + place + b".") is None
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 2**20


def test_a_state_that_contains_itself_is_refused(tmp_path: Path) -> None:
    # A dictionary, put into the memo, and set as its own entry.
    data = b"\x80\x02}q\x00X\x01\x00\x00\x00xh\x00s."
    assert any(op.name == "SETITEM" for op, _, _ in pickletools.genops(data))
    path = _zip(tmp_path, {"archive/data.pkl": data})
    with pytest.raises(UnreadableState, match="nested deeper than 64 levels"):
        inspect_checkpoint(path)


def _zip(folder: Path, members: dict[str, bytes], method: int = zipfile.ZIP_STORED) -> Path:
    path = folder / "x.pt"
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(name, data)
    return path


@pytest.mark.parametrize("reach", ["storage", "offset", "shape", "missing"])
def test_a_tensor_outside_its_storage_is_refused(tmp_path: Path, reach: str) -> None:
    n = 10**6 if reach == "storage" else 4
    pid = (
        "storage",
        write.Name("torch", "FloatStorage"),
        "7" if reach == "missing" else "0",
        "cpu",
        n,
    )
    first, shape = (2 if reach == "offset" else 0), ((5,) if reach == "shape" else (4,))
    shape = (10**6,) if reach == "storage" else shape
    view = write.Call(
        write.Name("torch._utils", "_rebuild_tensor_v2"),
        (write.Pointer(pid), first, shape, (1,), False, None),
    )
    members = {"archive/data.pkl": write.dumps({"w": view}), "archive/data/0": bytes(16)}
    with pytest.raises(UnreadableState, match=r"ends behind its storage|storage 7 is missing"):
        inspect_checkpoint(_zip(tmp_path, members))


def test_a_tensor_that_repeats_itself_beyond_measure_is_refused(tmp_path: Path) -> None:
    pid = ("storage", write.Name("torch", "FloatStorage"), "0", "cpu", 4)
    view = write.Call(
        write.Name("torch._utils", "_rebuild_tensor_v2"),
        (write.Pointer(pid), 0, (10**12,), (0,), False, None),
    )
    members = {
        "archive/data.pkl": write.dumps({"state": {"w": {"exp_avg": view, "exp_avg_sq": view}}}),
        "archive/data/0": bytes(16),
    }
    with pytest.raises(UnreadableState, match="do not lie side by side"):
        inspect_checkpoint(_zip(tmp_path, members))


def test_a_packed_zip_is_refused(tmp_path: Path) -> None:
    path = _zip(
        tmp_path, {"archive/data.pkl": write.dumps(STATE["model"] and {})}, zipfile.ZIP_DEFLATED
    )
    with pytest.raises(UnreadableState, match="is packed"):
        inspect_checkpoint(path)


# --- broken files -------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [".pt", ".safetensors", "/.metadata"])
def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"x{ending}"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    with pytest.raises(UnreadableState, match=r"empty \(0 bytes\)"):
        inspect_checkpoint(path.parent if ending.startswith("/") else path)


@pytest.mark.parametrize("form", [write.archive, write.legacy, write.safetensors])
def test_a_file_cut_anywhere_is_unreadable(tmp_path: Path, form: Any) -> None:
    data = form(STATE)
    path = tmp_path / "x"
    path.write_bytes(data)
    assert inspect_checkpoint(path).clean
    for length in range(0, len(data), 7):
        path.write_bytes(data[:length])
        with pytest.raises(UnreadableState):
            inspect_checkpoint(path)


def test_a_distributed_checkpoint_that_lacks_something_is_unreadable(tmp_path: Path) -> None:
    def made(name: str) -> Path:
        return write.distributed(tmp_path / name, STATE, 2)

    cases = {
        "the save never finished": lambda f: (f / ".metadata").unlink(),
        r"its file __1_0\.distcp is missing": lambda f: (f / "__1_0.distcp").unlink(),
        r"its file __0_0\.distcp is cut short": lambda f: _cut(f / "__0_0.distcp", -1),
        r"its \.metadata cannot be read: its pickle is cut short": lambda f: _cut(
            f / ".metadata", -1
        ),
        "is no distributed checkpoint": lambda f: [p.unlink() for p in f.iterdir()],
    }
    for number, (says, harm) in enumerate(cases.items()):
        folder = made(str(number))
        harm(folder)
        with pytest.raises(UnreadableState, match=says):
            inspect_checkpoint(folder)


def _cut(path: Path, end: int) -> None:
    path.write_bytes(path.read_bytes()[:end])


def test_files_of_two_saves_in_one_folder_are_unreadable(tmp_path: Path) -> None:
    """The old description with files of a later, larger model, whose items lie elsewhere."""
    larger = {"model": {"w": np.ones((9, 9), np.float32)}, "optim": STATE["optim"]}
    old = write.distributed(tmp_path / "old", STATE)
    new = write.distributed(tmp_path / "new", larger)
    (old / "__0_0.distcp").write_bytes((new / "__0_0.distcp").read_bytes())
    with pytest.raises(UnreadableState):
        inspect_checkpoint(old, against=old)


@pytest.mark.parametrize("file", ["../secret", "/etc/hostname"])
def test_a_description_may_not_point_outside_its_folder(tmp_path: Path, file: str) -> None:
    folder = write.distributed(tmp_path / "x", STATE)
    description = folder / ".metadata"
    name = b"__0_0.distcp"
    pointer = struct.pack("<I", len(file)) + file.encode()
    data = description.read_bytes().replace(struct.pack("<I", len(name)) + name, pointer)
    description.write_bytes(data)
    with pytest.raises(UnreadableState, match="points outside the folder"):
        inspect_checkpoint(folder)


@pytest.mark.parametrize("form", ["archive", "legacy", "safetensors", "distributed"])
def test_flipped_bits_end_in_an_answer(tmp_path: Path, form: str) -> None:
    """Any answer will do but another exception: 300 files with one to eight bytes changed."""
    rng = np.random.default_rng(0)
    path = tmp_path / "x"
    if form == "distributed":
        write.distributed(path, STATE)
        target = path / ".metadata"
    else:
        target = _written(path, getattr(write, form)(STATE))
    data = np.frombuffer(target.read_bytes(), np.uint8)
    n_refused = 0
    for _ in range(300):
        changed = data.copy()
        places = rng.integers(0, data.size, rng.integers(1, 9))
        changed[places] = rng.integers(0, 256, places.size)
        target.write_bytes(changed.tobytes())
        try:
            assert isinstance(inspect_checkpoint(path), Inspection)
        except UnreadableState:
            n_refused += 1
    assert n_refused > 30
