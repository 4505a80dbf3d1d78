"""Pickles read as data: no import, no call of anything that this module did not write.

A pickle is a program that may name any function of the machine and call it. Checkpoints are
pickles, so a reader of strangers' checkpoints must not run them. Here every name that a pickle
may use stands in a fixed table and leads to an inert stand-in of this module; any other name
ends the reading with a sentence that says which one it was. PyTorch is not needed.
"""

import io
import pickle
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, NamedTuple

from checkpoint_tax.errors import InputError

#: Largest pickled description that is read [bytes]; tensors are not part of it.
LARGEST_PICKLE_BYTES = 2**31


class UnreadableState(InputError):
    """A checkpoint that cannot be read, or that must not be."""


class ForbiddenGlobal(UnreadableState):
    """A pickle that names something outside the table of harmless names."""


# BUILD sets whatever it likes on an object without `__setstate__`, so every stand-in has one or
# has no place to set anything.
class _Inert:
    """Whatever an object was, kept as the arguments and the state it was pickled with."""

    __slots__ = ("args", "state")

    args: tuple[Any, ...]
    state: Any

    def __new__(cls, *args: Any) -> "_Inert":
        made = object.__new__(cls)
        made.args = args
        made.state = None
        return made

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def field(self, name: str, default: Any = None) -> Any:
        """Return one entry of a state that is a mapping."""
        return self.state.get(name, default) if isinstance(self.state, Mapping) else default


class _Map(dict[Any, Any]):
    """An ordered or a default dictionary; what else it carried is dropped."""

    __slots__ = ()

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items if isinstance(items, (list, tuple)) else ())

    def __setstate__(self, state: object) -> None:
        del state


class _Sequence(tuple[Any, ...]):
    """A set, a size or another plain collection, kept as a tuple of what it held."""

    __slots__ = ()

    def __setstate__(self, state: object) -> None:
        del state


class _Function:
    """A function's name; calling it fills in a description and does nothing else."""

    __slots__ = ("_call",)

    _call: Callable[..., Any]

    def __init__(self, call: Callable[..., Any]) -> None:
        object.__setattr__(self, "_call", call)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{name} cannot be set")

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)


# Tuples, since a pickle's BUILD writes into the dictionary of any object that has one.
class DType(NamedTuple):
    """The name of a tensor's element type, as torch spells it."""

    name: str


class Storage(NamedTuple):
    """One storage that a pickle points to: its key, its element type and its length."""

    key: str
    dtype: str
    n_elements: int


class View(NamedTuple):
    """A tensor as a pickle describes it: a view of a storage, sizes counted in elements."""

    storage: Storage
    dtype: str
    first_element: int
    shape: tuple[int, ...]
    stride: tuple[int, ...]


def _whole_numbers(values: Any, what: str) -> tuple[int, ...]:
    numbers = tuple(values)
    if not all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in numbers):
        raise UnreadableState(f"a tensor's {what} is {numbers!r}; it must be whole numbers >= 0.")
    return numbers


def _view(storage: Any, first: Any, shape: Any, stride: Any, *rest: Any) -> View:
    if not isinstance(storage, Storage):
        raise UnreadableState("a tensor is described without its storage.")
    dtype = next((item.name for item in rest if isinstance(item, DType)), storage.dtype)
    sizes, steps = _whole_numbers(shape, "shape"), _whole_numbers(stride, "stride")
    if len(sizes) != len(steps):
        raise UnreadableState(f"a tensor has {len(sizes)} sizes and {len(steps)} strides.")
    return View(storage, dtype, _whole_numbers((first,), "offset")[0], sizes, steps)


def _first(value: Any, *rest: Any) -> Any:
    """Stand for a parameter that wraps a tensor."""
    del rest
    return value


def _latin_bytes(text: Any, encoding: Any = "latin1") -> bytes:
    """Stand for the way in which old protocols spell bytes."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnreadableState("bytes are spelled in an encoding other than latin1.")
    return text.encode("latin1")


_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
}

_DTYPES = (
    *("float64", "float32", "float16", "bfloat16"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
    *("complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)

# Objects that checkpoints carry and no rule looks at: kept inert, so that the rest is readable.
_CARRIED = {
    "argparse": ("Namespace",),
    "datetime": ("datetime", "date", "timedelta", "timezone"),
    "numpy": ("dtype", "ndarray"),
    "numpy.core.multiarray": ("_reconstruct", "scalar"),
    "numpy._core.multiarray": ("_reconstruct", "scalar"),
    "numpy.core.numeric": ("_frombuffer",),
    "numpy._core.numeric": ("_frombuffer",),
    "pathlib": ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath", "Path"),
    "pathlib._local": ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath", "Path"),
    "torch": ("device", "strided", "contiguous_format", "channels_last", "preserve_format"),
    "torch.serialization": ("_get_layout",),
    "torch._utils": ("_rebuild_meta_tensor_no_storage",),
    "torch.distributed.checkpoint.metadata": (
        "Metadata",
        "TensorStorageMetadata",
        "BytesStorageMetadata",
        "ChunkStorageMetadata",
        "TensorProperties",
        "MetadataIndex",
        "StorageMeta",
        "_MEM_FORMAT_ENCODING",
    ),
    "torch.distributed.checkpoint.filesystem": ("_StorageInfo", "_StoragePrefix"),
    "types": ("SimpleNamespace",),
}


def _harmless_names() -> dict[tuple[str, str], Any]:
    names: dict[tuple[str, str], Any] = {
        ("collections", "OrderedDict"): _Map,
        ("collections", "defaultdict"): _Map,
        ("collections", "Counter"): _Map,
        ("_codecs", "encode"): _Function(_latin_bytes),
        ("torch", "Size"): _Sequence,
        ("torch._utils", "_rebuild_tensor"): _Function(_view),
        ("torch._utils", "_rebuild_tensor_v2"): _Function(_view),
        ("torch._utils", "_rebuild_tensor_v3"): _Function(_view),
        ("torch._utils", "_rebuild_parameter"): _Function(_first),
        ("torch._utils", "_rebuild_parameter_with_state"): _Function(_first),
        ("torch.storage", "UntypedStorage"): DType("uint8"),
        ("torch", "UntypedStorage"): DType("uint8"),
    }
    for module in ("builtins", "__builtin__"):
        for name in ("set", "frozenset", "list", "tuple"):
            names[module, name] = _Sequence
        for name in ("int", "float", "complex", "bytearray"):
            names[module, name] = type(name, (_Inert,), {"__slots__": ()})
        names[module, "dict"] = _Map
    for module in ("torch", "torch.cuda"):
        for name, dtype in _STORAGES.items():
            names[module, name] = DType(dtype)
    for dtype in _DTYPES:
        names["torch", dtype] = DType(dtype)
    for module, carried in _CARRIED.items():
        for name in carried:
            names[module, name] = type(name, (_Inert,), {"__slots__": ()})
    return names


#: Every name that a checkpoint's pickle may use, and the stand-in it leads to.
HARMLESS_NAMES: Mapping[tuple[str, str], Any] = _harmless_names()


# The interpreter in Python, since the compiled one lets a pickle of 8 bytes ask for 32 GiB.
class _DataReader(pickle._Unpickler):
    """A reader that knows only `HARMLESS_NAMES`."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return HARMLESS_NAMES[module, name]
        except (KeyError, TypeError):
            raise ForbiddenGlobal(
                f"it names {module}.{name}, which is not among the harmless names a checkpoint"
                " may use; nothing of it was run."
            ) from None

    def persistent_load(self, pid: Any) -> Storage:
        if not isinstance(pid, tuple) or len(pid) < 5 or pid[0] != "storage":
            raise UnreadableState("it points to something other than a storage.")
        dtype, key, n_elements = pid[1], pid[2], pid[4]
        if not isinstance(dtype, DType) or not isinstance(key, str):
            raise UnreadableState("it points to a storage in a way torch.save does not.")
        return Storage(key, dtype.name, _whole_numbers((n_elements,), "length")[0])

    def get_extension(self, code: int) -> Any:
        raise UnreadableState(f"it uses extension code {code}, which no checkpoint needs.")


def read_pickle(source: bytes | BinaryIO) -> Any:
    """Read one pickled object as plain data.

    Parameters
    ----------
    source : bytes or binary file
        The pickle; of a file, reading starts at its position and ends behind the pickle.

    Returns
    -------
    object
        Dictionaries, tuples, lists, numbers and texts; a tensor as a `View`; an object that no
        rule looks at as an inert record of its arguments and its state.

    Raises
    ------
    ForbiddenGlobal
        If the pickle names anything outside `HARMLESS_NAMES`.
    UnreadableState
        If it is cut short, no pickle, or asks for what the stand-ins refuse.
    """
    file = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        return _DataReader(file, encoding="latin1").load()
    except UnreadableState:
        raise
    except EOFError:
        raise UnreadableState("its pickle is cut short.") from None
    except RecursionError:
        raise UnreadableState("its pickle is nested too deeply.") from None
    except Exception as error:
        # Whatever a broken or hostile byte makes the interpreter raise, the answer is the same.
        raise UnreadableState(f"its pickle is broken ({type(error).__name__}: {error}).") from error
