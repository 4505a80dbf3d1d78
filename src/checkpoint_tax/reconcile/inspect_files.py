"""The three ways in which a training state lies on disk, opened without torch and without trust.

A file of `torch.save` (today's zip and the form before torch 1.6), a folder of
`torch.distributed.checkpoint`, and a safetensors file are all turned into one flat mapping from
dotted names to tensors and plain values. Tensors stay on disk: they are read block by block, by
ordinary reads rather than a memory map, since a training job that overwrites its checkpoint
meanwhile would otherwise end this process.
"""

import io
import json
import math
import os
import struct
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from checkpoint_tax.reconcile.inspect_pickle import (
    LARGEST_PICKLE_BYTES,
    Storage,
    UnreadableState,
    View,
    read_pickle,
)

#: Elements read at once: the memory that a pass over a tensor needs does not grow with it.
BLOCK_ELEMENTS = 2**20

# A tensor whose elements do not lie side by side is gathered whole; nobody saves larger ones.
_LARGEST_GATHERED_BYTES = 2**30
_LARGEST_SAFETENSORS_HEADER_BYTES = 100_000_000
_MOST_LEAVES = 20_000_000
_DEEPEST_NESTING = 64

_ZIP_MAGIC = b"PK\x03\x04"
_LEGACY_MAGIC = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
_LEGACY_NUMBER = 0x1950A86A20F9469CFC6C

# How each element type is read: the NumPy type of its bytes.
_BYTES_OF = {
    "float64": "<f8",
    "float32": "<f4",
    "float16": "<f2",
    "bfloat16": "<u2",
    "int64": "<i8",
    "int32": "<i4",
    "int16": "<i2",
    "int8": "|i1",
    "uint64": "<u8",
    "uint32": "<u4",
    "uint16": "<u2",
    "uint8": "|u1",
    "bool": "|u1",
    "complex128": "<c16",
    "complex64": "<c8",
    "complex32": "<u4",
    **dict.fromkeys(
        ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
        "|u1",
    ),
}
#: Element types whose values the rules can judge.
REAL_DTYPES = frozenset({"float64", "float32", "float16", "bfloat16"})
_INTEGERS = frozenset(n for n in _BYTES_OF if n.startswith(("int", "uint")))

_SAFETENSORS_DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
}


@dataclass(frozen=True)
class Piece:
    """One part of a tensor on disk.

    Attributes
    ----------
    path : Path
        The file.
    first_byte : int
        Where element 0 lies in the file [bytes].
    dtype : str
        Element type, as torch spells it.
    shape, stride : tuple of int
        Sizes and strides [elements].
    origin : tuple of int
        Index, in the whole tensor, of this part's first element.
    """

    path: Path
    first_byte: int
    dtype: str
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    origin: tuple[int, ...]

    @property
    def n_elements(self) -> int:
        """How many elements this part holds."""
        return math.prod(self.shape)

    @property
    def layout(self) -> tuple[object, ...]:
        """What two parts must share for their bytes to be comparable one by one."""
        return (self.dtype, self.shape, self.stride if self.n_elements > 1 else ())

    @property
    def side_by_side(self) -> bool:
        """Whether the elements fill their stretch of the file without gaps, in any order."""
        expected = 1
        for step, size in sorted(zip(self.stride, self.shape, strict=True)):
            if size == 1:
                continue
            if step != expected:
                return False
            expected *= size
        return True

    def raw_blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the elements as they lie on disk, `BLOCK_ELEMENTS` at a time.

        Yields
        ------
        ndarray
            One-dimensional; two bytes of bfloat16 as an unsigned integer.
        """
        if self.n_elements == 0:
            return
        kind = np.dtype(_BYTES_OF[self.dtype])
        if not self.side_by_side:
            yield self.gathered().reshape(-1)
            return
        with self.path.open("rb") as file:
            file.seek(self.first_byte)
            left = self.n_elements
            while left:
                wanted = min(left, BLOCK_ELEMENTS)
                block = np.frombuffer(file.read(wanted * kind.itemsize), kind)
                if block.size != wanted:
                    raise UnreadableState(f"{self.path} is cut short.")
                yield block
                left -= wanted

    def blocks(self) -> Iterator[NDArray[Any]]:
        """Yield the elements as numbers, `BLOCK_ELEMENTS` at a time, in the order on disk.

        Yields
        ------
        ndarray
            One-dimensional; bfloat16 as float32.
        """
        for block in self.raw_blocks():
            yield _numbers(block, self.dtype)

    def gathered(self) -> NDArray[Any]:
        """Return the elements, as they lie on disk, in the shape of this part.

        Returns
        -------
        ndarray
            In the order of the tensor's axes.

        Raises
        ------
        UnreadableState
            If they take more than 1 GiB, or the file is cut short.
        """
        kind = np.dtype(_BYTES_OF[self.dtype])
        if self.n_elements == 0:
            return np.empty(self.shape, kind)
        span = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride, strict=True))
        if max(span, self.n_elements) * kind.itemsize > _LARGEST_GATHERED_BYTES:
            raise UnreadableState(
                f"{self.path} holds a tensor of {self.n_elements} elements that do not lie side by"
                f" side; at most {_LARGEST_GATHERED_BYTES} bytes are gathered."
            )
        with self.path.open("rb") as file:
            file.seek(self.first_byte)
            flat = np.frombuffer(file.read(span * kind.itemsize), kind)
        if flat.size != span:
            raise UnreadableState(f"{self.path} is cut short.")
        steps = tuple(s * kind.itemsize for s in self.stride)
        return np.lib.stride_tricks.as_strided(flat, self.shape, steps, writeable=False)


@dataclass(frozen=True)
class StoredTensor:
    """A tensor that lies on disk in one or several parts.

    Attributes
    ----------
    dtype : str
        Element type, as torch spells it.
    shape : tuple of int
        Sizes of the whole.
    locate : callable
        Finds the parts; called when they are first needed.
    """

    dtype: str
    shape: tuple[int, ...]
    locate: Callable[[], tuple[Piece, ...]] = field(repr=False)

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The parts, in the order of their origins."""
        return tuple(sorted(self.locate(), key=lambda piece: piece.origin))

    @property
    def n_elements(self) -> int:
        """How many elements the whole holds."""
        return math.prod(self.shape)

    def scalar(self) -> float | int | bool | None:
        """Return the value of a one-element tensor, None for any other.

        Returns
        -------
        float, int, bool or None
            None also for complex numbers and eight-bit floats.
        """
        if self.n_elements != 1 or self.dtype.startswith(("complex", "float8")):
            return None
        value = next(self.pieces[0].blocks()).reshape(-1)[0]
        if self.dtype == "bool":
            return bool(value)
        return int(value) if self.dtype in _INTEGERS else float(value)

    def gathered(self) -> NDArray[Any]:
        """Return the whole as it lies on disk; refused above 1 GiB.

        Returns
        -------
        ndarray
            In the shape of the whole.

        Raises
        ------
        UnreadableState
            If it takes more than 1 GiB.
        """
        kind = np.dtype(_BYTES_OF[self.dtype])
        if self.n_elements * kind.itemsize > _LARGEST_GATHERED_BYTES:
            raise UnreadableState(f"a tensor of {self.n_elements} elements is too large to gather.")
        whole = np.empty(self.shape, kind)
        for piece in self.pieces:
            corner = zip(piece.origin, piece.shape, strict=True)
            whole[tuple(slice(start, start + size) for start, size in corner)] = piece.gathered()
        return whole


Leaf = StoredTensor | float | int | bool | str | None


@dataclass(frozen=True)
class StoredState:
    """A training state as one flat mapping.

    Attributes
    ----------
    path : Path
        Where it lies.
    format : str
        "torch.save", "torch.distributed.checkpoint" or "safetensors".
    leaves : mapping
        From dotted names to tensors and plain values.
    """

    path: Path
    format: str
    leaves: Mapping[str, Leaf]


def open_state(path: Path) -> StoredState:
    """Open a training state; tensors stay on disk.

    Parameters
    ----------
    path : Path
        A `torch.save` file, a safetensors file, or a folder of `torch.distributed.checkpoint`.

    Returns
    -------
    StoredState
        Its names, its plain values, and where its tensors lie.

    Raises
    ------
    UnreadableState
        If it is missing, empty, cut short, incomplete or of another format; as
        `ForbiddenGlobal` if a pickle in it names anything but harmless names.
    """
    try:
        if path.is_dir():
            return StoredState(path, "torch.distributed.checkpoint", _open_folder(path))
        return _open_file(path)
    except UnreadableState as error:
        text = str(error)
        raise type(error)(text if str(path) in text else f"{path} cannot be read: {text}") from None
    except OSError as error:
        raise UnreadableState(f"{path} cannot be read: {error.strerror or error}.") from error


def _open_file(path: Path) -> StoredState:
    size = path.stat().st_size
    if size == 0:
        raise UnreadableState("the file is empty (0 bytes).")
    with path.open("rb") as file:
        head = file.read(16)
    if head.startswith(_ZIP_MAGIC):
        return StoredState(path, "torch.save", _flat(*_read_archive(path, 0, size)))
    if len(head) > 8 and head[8:9] == b"{":
        return StoredState(path, "safetensors", _open_safetensors(path, size))
    if head.startswith(_LEGACY_MAGIC):
        return StoredState(path, "torch.save", _flat(*_read_legacy(path, size)))
    if head.startswith(b"\x80"):
        with path.open("rb") as file:
            read_pickle(file)
        raise UnreadableState("it is a bare pickle, not a training state that torch.save wrote.")
    raise UnreadableState(
        "it is neither a torch.save file nor a safetensors file, or its beginning is lost."
    )


# --- safetensors ---------------------------------------------------------------------------------


def _open_safetensors(path: Path, size_bytes: int) -> dict[str, Leaf]:
    """Read the header: 8 bytes of its length, then JSON; offsets count from the header's end."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > min(size_bytes - 8, _LARGEST_SAFETENSORS_HEADER_BYTES):
            raise UnreadableState(
                f"its header claims {length} bytes in a file of {size_bytes}; it is cut short or"
                " no safetensors file."
            )
        try:
            header = json.loads(file.read(length))
        except (ValueError, RecursionError):
            raise UnreadableState("its safetensors header is no valid JSON.") from None
    if not isinstance(header, dict):
        raise UnreadableState("its safetensors header is no table of tensors.")
    start = 8 + length
    texts = header.pop("__metadata__", None)
    # Numbers that are no tensors have no other place in this format than its texts.
    leaves: dict[str, Leaf] = {}
    if isinstance(texts, dict):
        leaves.update({name: _number_or_text(text) for name, text in texts.items()})
    for name, entry in header.items():
        leaves[name] = _safetensor(path, name, entry, start, size_bytes)
    return leaves


def _safetensor(path: Path, name: str, entry: Any, start: int, size_bytes: int) -> StoredTensor:
    try:
        dtype = _SAFETENSORS_DTYPES[entry["dtype"]]
        shape = tuple(entry["shape"])
        first, last = entry["data_offsets"]
        whole = all(type(n) is int and n >= 0 for n in (*shape, first, last))
    except (KeyError, TypeError, ValueError):
        raise UnreadableState(f"its entry for {name!r} is not one of a safetensors file.") from None
    if not whole or last - first != math.prod(shape) * np.dtype(_BYTES_OF[dtype]).itemsize:
        raise UnreadableState(f"its entry for {name!r} does not fit that tensor's shape.")
    if start + last > size_bytes:
        raise UnreadableState(f"it is cut short: {name!r} ends behind the end of the file.")
    piece = Piece(path, start + first, dtype, shape, _row_major(shape), (0,) * len(shape))
    return StoredTensor(dtype, shape, lambda: (piece,))


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _number_or_text(value: object) -> Leaf:
    """Return a metadata value, which safetensors can only keep as text, as the number it spells."""
    text = str(value)
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


# --- torch.save ----------------------------------------------------------------------------------

# Where the bytes of a storage lie: the file, the first byte and the length in bytes.
_Place = tuple[Path, int, int]
_Finder = Callable[[Storage], _Place]


class _Stretch(io.RawIOBase):
    """A stretch of a file that looks like a file of its own."""

    def __init__(self, file: BinaryIO, first_byte: int, n_bytes: int) -> None:
        self._file, self._first, self._size, self._at = file, first_byte, n_bytes, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("a position before the beginning")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: Any) -> int:
        self._file.seek(self._first + self._at)
        data = self._file.read(max(0, min(len(buffer), self._size - self._at)))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


def _read_archive(path: Path, first_byte: int, n_bytes: int) -> tuple[Any, _Finder]:
    """Read the zip that `torch.save` writes: one pickle, and one uncompressed member a storage."""
    members: dict[str, _Place] = {}
    with path.open("rb") as file:
        try:
            archive = zipfile.ZipFile(_Stretch(file, first_byte, n_bytes))
            for member in archive.infolist():
                name = member.filename.partition("/")[2]
                if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                    raise UnreadableState(f"its member {name} is packed; torch.save never does so.")
                # The local header may carry other extra bytes than the directory at the end says.
                file.seek(first_byte + member.header_offset)
                local = file.read(30)
                if len(local) != 30 or not local.startswith(_ZIP_MAGIC):
                    raise UnreadableState(f"its member {name} is cut short.")
                skip = sum(struct.unpack("<HH", local[26:30]))
                start = first_byte + member.header_offset + 30 + skip
                if start + member.file_size > first_byte + n_bytes:
                    raise UnreadableState(f"its member {name} is cut short.")
                members[name] = (path, start, member.file_size)
        except (zipfile.BadZipFile, struct.error, NotImplementedError, ValueError) as error:
            if isinstance(error, UnreadableState):
                raise
            raise UnreadableState("its table of contents is lost: it is cut short.") from None
        content = _member(file, members, "data.pkl")
        order = _member(file, members, "byteorder") if "byteorder" in members else b"little"
    if order.strip() != b"little":
        raise UnreadableState("it was written on a big-endian machine, which is not read here.")

    def find(storage: Storage) -> _Place:
        try:
            return members[f"data/{storage.key}"]
        except KeyError:
            raise UnreadableState(f"its storage {storage.key} is missing.") from None

    return read_pickle(content), find


def _member(file: BinaryIO, members: Mapping[str, _Place], name: str) -> bytes:
    if name not in members:
        raise UnreadableState(f"it is a zip without {name}, so torch.save did not write it.")
    _, start, size = members[name]
    if size > LARGEST_PICKLE_BYTES:
        raise UnreadableState(f"its {name} has {size} bytes; at most {LARGEST_PICKLE_BYTES}.")
    file.seek(start)
    return file.read(size)


def _read_legacy(path: Path, size_bytes: int) -> tuple[Any, _Finder]:
    """Read the form before torch 1.6: five pickles, then each storage's length and bytes."""
    places: dict[str, _Place] = {}
    with path.open("rb") as file:
        if read_pickle(file) != _LEGACY_NUMBER:
            raise UnreadableState("its first number is not torch's.")
        _, system, content = read_pickle(file), read_pickle(file), read_pickle(file)
        if isinstance(system, Mapping) and system.get("little_endian") is False:
            raise UnreadableState("it was written on a big-endian machine, which is not read here.")
        keys = read_pickle(file)
        itemsize = {s.key: np.dtype(_BYTES_OF[s.dtype]).itemsize for s in _storages(content)}
        if not isinstance(keys, list) or not all(key in itemsize for key in keys):
            raise UnreadableState("its list of storages does not belong to its tensors.")
        for key in keys:
            head = file.read(8)
            n_bytes = itemsize[key] * (struct.unpack("<q", head)[0] if len(head) == 8 else -1)
            if n_bytes < 0 or file.tell() + n_bytes > size_bytes:
                raise UnreadableState(f"it is cut short in storage {key}.")
            places[key] = (path, file.tell(), n_bytes)
            file.seek(n_bytes, os.SEEK_CUR)

    def find(storage: Storage) -> _Place:
        try:
            return places[storage.key]
        except KeyError:
            raise UnreadableState(f"its storage {storage.key} is missing.") from None

    return content, find


def _storages(content: Any) -> Iterator[Storage]:
    for _, leaf in _leaves(content, "", 0):
        if isinstance(leaf, View):
            yield leaf.storage


def _stored(view: View, find: _Finder) -> StoredTensor:
    """Place a view on disk, after checking that it stays inside its storage."""
    path, start, available = find(view.storage)
    itemsize = np.dtype(_BYTES_OF[view.dtype]).itemsize
    span = 0
    if math.prod(view.shape):
        span = 1 + sum((n - 1) * s for n, s in zip(view.shape, view.stride, strict=True))
    if (view.first_element + span) * itemsize > available:
        raise UnreadableState(
            f"a tensor of shape {view.shape} ends behind its storage {view.storage.key}."
        )
    piece = Piece(
        path,
        start + view.first_element * itemsize,
        view.dtype,
        view.shape,
        view.stride,
        (0,) * len(view.shape),
    )
    return StoredTensor(view.dtype, view.shape, lambda: (piece,))


def _leaves(content: Any, name: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Walk nested dictionaries and lists; names are joined by dots."""
    if depth > _DEEPEST_NESTING:
        raise UnreadableState(f"it is nested deeper than {_DEEPEST_NESTING} levels at {name[:80]}.")
    if isinstance(content, Mapping):
        for key, value in content.items():
            yield from _leaves(value, f"{name}.{key}" if name else str(key), depth + 1)
    elif isinstance(content, (list, tuple)) and not isinstance(content, (View, Storage)):
        for index, value in enumerate(content):
            yield from _leaves(value, f"{name}.{index}" if name else str(index), depth + 1)
    else:
        yield name, content


def _flat(content: Any, find: _Finder, name: str = "") -> dict[str, Leaf]:
    leaves: dict[str, Leaf] = {}
    for count, (key, value) in enumerate(_leaves(content, name, 0)):
        if count > _MOST_LEAVES:
            raise UnreadableState(f"it holds more than {_MOST_LEAVES} values.")
        if isinstance(value, View):
            leaves[key] = _stored(value, find)
        elif value is None or isinstance(value, (bool, int, float, str)):
            leaves[key] = value
    return leaves


# --- torch.distributed.checkpoint ----------------------------------------------------------------


@dataclass(frozen=True)
class _Stored:
    """Where one item of a distributed checkpoint lies."""

    path: Path
    first_byte: int
    n_bytes: int

    def read(self) -> tuple[Any, _Finder]:
        try:
            return _read_archive(self.path, self.first_byte, self.n_bytes)
        except UnreadableState as error:
            raise type(error)(f"{self.path} cannot be read: {error}") from None


def _open_folder(path: Path) -> dict[str, Leaf]:
    description = path / ".metadata"
    if not description.is_file():
        n_parts = len(list(path.glob("*.distcp")))
        if n_parts:
            raise UnreadableState(
                f"the folder holds {n_parts} .distcp files but no .metadata: the save never"
                " finished, so resume from an earlier one."
            )
        raise UnreadableState(
            "the folder has no .metadata, so it is no distributed checkpoint; name one, or a file."
        )
    size = description.stat().st_size
    if size == 0:
        raise UnreadableState("its .metadata is empty (0 bytes): the save never finished.")
    if size > LARGEST_PICKLE_BYTES:
        raise UnreadableState(f"its .metadata has {size} bytes; at most {LARGEST_PICKLE_BYTES}.")
    try:
        metadata = read_pickle(description.read_bytes())
        items = metadata.field("state_dict_metadata")
        stored = metadata.field("storage_data")
    except UnreadableState as error:
        raise type(error)(f"its .metadata cannot be read: {error}") from None
    except AttributeError:
        items = stored = None
    if not isinstance(items, Mapping) or not isinstance(stored, Mapping):
        raise UnreadableState("its .metadata does not describe a distributed checkpoint.")
    places = dict(_places(path, stored))
    leaves: dict[str, Leaf] = {}
    for name, item in items.items():
        kind = type(item).__name__
        if kind == "BytesStorageMetadata":
            leaves.update(_flat(*_place(places, name, None).read(), name))
        elif kind == "TensorStorageMetadata":
            leaves[name] = _distributed_tensor(str(name), item, places)
        else:
            raise UnreadableState(f"its .metadata describes {name} in a way that is not known.")
    return leaves


def _places(path: Path, stored: Mapping[Any, Any]) -> Iterator[tuple[tuple[Any, Any], _Stored]]:
    sizes: dict[str, int] = {}
    for index, info in stored.items():
        try:
            name, origin = index.field("fqn"), index.field("offset")
            file, first = info.field("relative_path"), info.field("offset")
            length, packed = info.field("length"), info.field("transform_descriptors")
        except AttributeError:
            raise UnreadableState(
                "its .metadata places items in a way that is not known."
            ) from None
        if packed:
            raise UnreadableState(
                f"its item {name} is packed by {packed!r}, which is not read here."
            )
        if not isinstance(file, str) or not all(type(n) is int and n >= 0 for n in (first, length)):
            raise UnreadableState(f"its .metadata does not say where {name} lies.")
        if file not in sizes:
            sizes[file] = _size_of_part(path, file)
        if first + length > sizes[file]:
            raise UnreadableState(
                f"its file {file} is cut short: {name} ends at byte {first + length} of"
                f" {sizes[file]}."
            )
        yield (name, None if origin is None else tuple(origin)), _Stored(path / file, first, length)


def _size_of_part(path: Path, file: str) -> int:
    part = path / file
    if Path(file).is_absolute() or ".." in Path(file).parts:
        raise UnreadableState(f"its .metadata points outside the folder, to {file}.")
    if not part.is_file():
        raise UnreadableState(f"its file {file} is missing: the checkpoint is incomplete.")
    return part.stat().st_size


def _place(places: Mapping[Any, _Stored], name: Any, origin: tuple[int, ...] | None) -> _Stored:
    try:
        return places[name, origin]
    except (KeyError, TypeError):
        raise UnreadableState(f"its .metadata does not say where {name} lies.") from None


def _distributed_tensor(name: str, item: Any, places: Mapping[Any, _Stored]) -> StoredTensor:
    try:
        properties = item.field("properties").state
        dtype = (properties if isinstance(properties, tuple) else (properties["dtype"],))[0].name
        shape = tuple(item.field("size"))
        chunks = [
            (tuple(c.field("offsets")), tuple(c.field("sizes"))) for c in item.field("chunks")
        ]
        numbers = [*shape, *(n for pair in chunks for part in pair for n in part)]
        fits = all(type(n) is int and n >= 0 for n in numbers) and all(
            len(origin) == len(sizes) == len(shape)
            and all(o + s <= n for o, s, n in zip(origin, sizes, shape, strict=True))
            for origin, sizes in chunks
        )
        known = dtype in _BYTES_OF
    except (AttributeError, IndexError, KeyError, TypeError):
        fits = known = False
    if not fits or not known:
        raise UnreadableState(f"its .metadata describes {name} in a way that is not known.")
    if sum(math.prod(sizes) for _, sizes in chunks) != math.prod(shape):
        raise UnreadableState(f"its parts of {name} do not fill that tensor: it is incomplete.")
    parts = [(origin, sizes, _place(places, name, origin)) for origin, sizes in chunks]

    def locate() -> tuple[Piece, ...]:
        return tuple(_part(name, dtype, origin, sizes, place) for origin, sizes, place in parts)

    return StoredTensor(dtype, shape, locate)


def _part(
    name: str, dtype: str, origin: tuple[int, ...], sizes: tuple[int, ...], place: _Stored
) -> Piece:
    content, find = place.read()
    if not isinstance(content, View) or content.shape != sizes or content.dtype != dtype:
        raise UnreadableState(
            f"{place.path} does not hold what .metadata says of {name}: files of two saves are"
            " mixed in one folder."
        )
    (piece,) = _stored(content, find).pieces
    return Piece(piece.path, piece.first_byte, dtype, sizes, piece.stride, origin)


def _numbers(block: NDArray[Any], dtype: str) -> NDArray[Any]:
    if dtype == "bfloat16":
        return (block.astype(np.uint32) << 16).view(np.float32)
    return block
