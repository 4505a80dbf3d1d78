"""Writers of checkpoint files, in plain Python, opcode by opcode: torch is not needed.

They write what `torch.save` and `torch.distributed.checkpoint` write, and also what no sane
program writes, such as a pickle that names a forbidden function.
"""

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STORAGES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "int64": "LongStorage",
}
SAFE = {"float32": "F32", "float64": "F64", "float16": "F16", "bfloat16": "BF16", "int64": "I64"}


@dataclass(frozen=True)
class Name:
    module: str
    name: str


@dataclass(frozen=True)
class Call:
    function: Any
    args: tuple[Any, ...]
    state: Any = None


@dataclass(frozen=True)
class Pointer:
    pid: tuple[Any, ...]


@dataclass(frozen=True)
class Bfloat16:
    """Numbers to be stored as bfloat16, rounded to nearest even."""

    values: Any

    def bits(self) -> np.ndarray:
        raw = np.asarray(self.values, np.float32).view(np.uint32)
        return ((raw + 0x7FFF + ((raw >> 16) & 1)) >> 16).astype("<u2")


def dumps(value: Any) -> bytes:
    """Pickle by hand, protocol 2."""
    out = io.BytesIO()
    out.write(b"\x80\x02")
    _put(out, value)
    out.write(b".")
    return out.getvalue()


def _put(out: io.BytesIO, value: Any) -> None:
    if value is None:
        out.write(b"N")
    elif isinstance(value, bool):
        out.write(b"\x88" if value else b"\x89")
    elif isinstance(value, int):
        size = value.bit_length() // 8 + 1
        out.write(b"\x8a" + bytes([size]) + value.to_bytes(size, "little", signed=True))
    elif isinstance(value, float):
        out.write(b"G" + struct.pack(">d", value))
    elif isinstance(value, str):
        data = value.encode()
        out.write(b"X" + struct.pack("<I", len(data)) + data)
    elif isinstance(value, (tuple, list)):
        out.write(b"(")
        for item in value:
            _put(out, item)
        out.write(b"t" if isinstance(value, tuple) else b"l")
    elif isinstance(value, Mapping):
        out.write(b"}(")
        for key, item in value.items():
            _put(out, key)
            _put(out, item)
        out.write(b"u")
    elif isinstance(value, Name):
        out.write(f"c{value.module}\n{value.name}\n".encode())
    elif isinstance(value, Call):
        _put(out, value.function)
        _put(out, value.args)
        out.write(b"R")
        if value.state is not None:
            _put(out, value.state)
            out.write(b"b")
    elif isinstance(value, Pointer):
        _put(out, value.pid)
        out.write(b"Q")
    else:
        raise TypeError(type(value))


def raw(array: Any) -> tuple[np.ndarray, str]:
    """Return the bytes of an array as it is stored, and its element type."""
    if isinstance(array, Bfloat16):
        return array.bits(), "bfloat16"
    return np.asarray(array), str(np.asarray(array).dtype)


def _tensor(array: Any, storages: list[bytes], legacy: bool) -> Call:
    values, dtype = raw(array)
    # A transposed array keeps its storage and its strides, as torch keeps them.
    flat = values.T if values.flags.f_contiguous and not values.flags.c_contiguous else values
    data = np.ascontiguousarray(flat).tobytes()
    stride = tuple(step // values.itemsize for step in values.strides)
    if flat is values and not values.flags.c_contiguous:
        stride = np.ascontiguousarray(values).strides
        stride = tuple(step // values.itemsize for step in stride)
    pid = ("storage", Name("torch", STORAGES[dtype]), str(len(storages)), "cpu", values.size)
    storages.append(data)
    return Call(
        Name("torch._utils", "_rebuild_tensor_v2"),
        (
            Pointer((*pid, None) if legacy else pid),
            0,
            values.shape,
            stride,
            False,
            Call(Name("collections", "OrderedDict"), ()),
        ),
    )


def _described(content: Any, storages: list[bytes], legacy: bool) -> Any:
    if isinstance(content, Mapping):
        return {key: _described(item, storages, legacy) for key, item in content.items()}
    if isinstance(content, (list, tuple)):
        return type(content)(_described(item, storages, legacy) for item in content)
    if isinstance(content, (np.ndarray, np.generic, Bfloat16)):
        return _tensor(content, storages, legacy)
    return content


def archive(content: Any) -> bytes:
    """Write today's form of `torch.save`."""
    storages: list[bytes] = []
    pickled = dumps(_described(content, storages, legacy=False))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        file.writestr("archive/data.pkl", pickled)
        file.writestr("archive/byteorder", "little")
        for key, data in enumerate(storages):
            member = zipfile.ZipInfo(f"archive/data/{key}")
            # An extra field, as torch pads each storage to a round address.
            member.extra = b"FB" + struct.pack("<H", 5) + b"ZZZZZ"
            file.writestr(member, data)
        file.writestr("archive/version", "3\n")
    return out.getvalue()


def legacy(content: Any) -> bytes:
    """Write the form that `torch.save` had before version 1.6."""
    storages: list[bytes] = []
    described = _described(content, storages, legacy=True)
    sizes = _lengths(described)
    parts = [dumps(0x1950A86A20F9469CFC6C), dumps(1001)]
    parts += [dumps({"protocol_version": 1001, "little_endian": True}), dumps(described)]
    parts.append(dumps([str(key) for key in range(len(storages))]))
    for key, data in enumerate(storages):
        parts.append(struct.pack("<q", sizes[str(key)]) + data)
    return b"".join(parts)


def _lengths(described: Any) -> dict[str, int]:
    if isinstance(described, Mapping):
        return {k: n for item in described.values() for k, n in _lengths(item).items()}
    if isinstance(described, Call):
        return _lengths(list(described.args))
    if isinstance(described, Pointer):
        return {described.pid[2]: described.pid[4]}
    if isinstance(described, (list, tuple)):
        return {k: n for item in described for k, n in _lengths(item).items()}
    return {}


def flat(content: Any, name: str = "") -> dict[str, Any]:
    """Join nested names by dots."""
    if isinstance(content, Mapping):
        pairs = list(content.items())
    elif isinstance(content, (list, tuple)):
        pairs = list(enumerate(content))
    else:
        return {name: content}
    leaves: dict[str, Any] = {}
    for key, value in pairs:
        leaves.update(flat(value, f"{name}.{key}" if name else str(key)))
    return leaves


def safetensors(content: Any) -> bytes:
    """Write a safetensors file; plain values become text in its metadata."""
    header: dict[str, Any] = {"__metadata__": {}}
    data = b""
    for name, value in flat(content).items():
        if not isinstance(value, (np.ndarray, np.generic, Bfloat16)):
            header["__metadata__"][name] = str(value)
            continue
        values, dtype = raw(value)
        block = np.ascontiguousarray(values).tobytes()
        header[name] = {
            "dtype": SAFE[dtype],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(block)],
        }
        data += block
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


_METADATA = "torch.distributed.checkpoint.metadata"


def _size(numbers: tuple[int, ...]) -> Call:
    return Call(Name("torch", "Size"), (tuple(numbers),))


def distributed(folder: Path, content: Any, n_parts: int = 1) -> Path:
    """Write a folder of `torch.distributed.checkpoint`, tensors cut along their first axis."""
    folder.mkdir(parents=True)
    described: dict[str, Any] = {}
    stored: list[tuple[Any, Any]] = []
    files = [b""] * n_parts
    for name, value in flat(content).items():
        if not isinstance(value, (np.ndarray, np.generic, Bfloat16)):
            described[name] = Call(Name(_METADATA, "BytesStorageMetadata"), ())
            stored.append(_place(name, None, 0, files, archive(value)))
            continue
        values, dtype = raw(value)
        cut = n_parts if values.ndim and values.shape[0] >= n_parts else 1
        edges = np.linspace(0, values.shape[0] if values.ndim else 1, cut + 1).astype(int)
        chunks = []
        for part in range(cut):
            start, end = int(edges[part]), int(edges[part + 1])
            origin = (start, *(0,) * (values.ndim - 1)) if values.ndim else ()
            block = values[start:end] if values.ndim else values
            chunks.append(
                Call(
                    Name(_METADATA, "ChunkStorageMetadata"),
                    (),
                    {"offsets": _size(origin), "sizes": _size(block.shape)},
                )
            )
            written = _Raw(np.array(block, order="C"), dtype).archive()
            stored.append(_place(name, origin, part, files, written))
        described[name] = Call(
            Name(_METADATA, "TensorStorageMetadata"),
            (),
            {
                "properties": Call(
                    Name(_METADATA, "TensorProperties"),
                    (),
                    (
                        Name("torch", dtype),
                        Call(Name("torch.serialization", "_get_layout"), ("torch.strided",)),
                        False,
                        Call(Name(_METADATA, "_MEM_FORMAT_ENCODING"), (0,)),
                        False,
                    ),
                ),
                "size": _size(values.shape),
                "chunks": chunks,
            },
        )
    for part, data in enumerate(files):
        (folder / f"__{part}_0.distcp").write_bytes(data)
    fields = {"state_dict_metadata": described, "storage_data": _Pairs(stored)}
    metadata = Call(Name(_METADATA, "Metadata"), (), fields)
    (folder / ".metadata").write_bytes(dumps(metadata))
    return folder


class _Pairs(dict[Any, Any]):
    """A dictionary whose keys are not hashable here: written from pairs."""

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        super().__init__()
        self.pairs = pairs

    def items(self) -> Any:
        return self.pairs


@dataclass(frozen=True)
class _Raw:
    values: np.ndarray
    dtype: str

    def archive(self) -> bytes:
        if self.dtype == "bfloat16":
            return archive(Bfloat16(_widened(self.values)))
        return archive(self.values)


def _widened(bits: np.ndarray) -> np.ndarray:
    return (bits.astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def _place(
    name: str, origin: tuple[int, ...] | None, part: int, files: list[bytes], data: bytes
) -> tuple[Any, Any]:
    first = len(files[part])
    files[part] += data
    index = Call(
        Name(_METADATA, "MetadataIndex"),
        (),
        {"fqn": name, "offset": None if origin is None else _size(origin), "index": part},
    )
    info = Call(
        Name("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        (),
        {
            "relative_path": f"__{part}_0.distcp",
            "offset": first,
            "length": len(data),
            "transform_descriptors": None,
        },
    )
    return index, info
