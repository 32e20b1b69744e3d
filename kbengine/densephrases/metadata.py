"""Reading `meta_compressed.pkl` without unpickling it.

The file is a pickle of one dictionary: document number → offsets and text, packed by blosc. Its instructions are only
looked at here, one after the other, and those few are followed that build dictionaries, texts, bytes, numbers and
numpy's number types. Nothing is imported or called for the file, so it can run no code; whatever else it contains is
refused. The outermost dictionary is given out entry by entry: the published file has 20 GB.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kbengine.errors import CorpusError, CorruptError, MissingExtraError

_REMEMBERED = 50_000
"""Objects of the beginning, and as many of the last ones, that later instructions may refer to."""
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_IGNORED = frozenset({"PROTO", "FRAME"})
_NUMBER_TYPES = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"})
_DTYPE = ("numpy", "dtype")


@dataclass(frozen=True, eq=False)
class DumpMetadata:
    """What the file says about one document: see `DumpDocument` for the arrays."""

    key: str
    title: str
    context: str
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    kept: NDArray[np.int64]


class _Mark:
    """The place on the stack where the arguments of a later instruction begin."""


@dataclass(frozen=True)
class _Name:
    """A name that the pickle asks to import; it is not imported."""

    module: str
    name: str


@dataclass
class _NumberType:
    """A numpy number type, as its constructor's argument and its state describe it."""

    code: str
    byte_order: str = ""

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.byte_order + self.code)


def read_metadata(path: Path) -> Iterator[DumpMetadata]:
    """Give what the file says about every document, in its order.

    Raises:
        MissingExtraError: blosc is not installed.
        CorpusError: there is no such file.
        CorruptError: it is not what DensePhrases writes, or contains something that is not plain data.
    """
    try:
        import blosc
    except ImportError as e:
        raise MissingExtraError.of(f"reading {path.name}", "blosc", "densephrases") from e
    if not path.is_file():
        raise CorpusError(f"{path} is not there; wanted DensePhrases' meta_compressed.pkl")
    for key, value in _entries(path):
        try:
            types = value["dtypes"]
            starts, ends, kept = (
                np.frombuffer(blosc.decompress(value[name]), types[name].dtype)
                for name in ("word2char_start", "word2char_end", "f2o_start")
            )
            context = blosc.decompress(value["context"]).decode("utf-8")
            metadata = DumpMetadata(
                str(key),
                str(value["title"]),
                context,
                starts.astype(np.int32),
                ends.astype(np.int32),
                kept.astype(np.int64),
            )
        except Exception as e:  # blosc raises its own and others; the entry is damaged whatever it was
            raise CorruptError(f"{path}, document {key}: {e}; copy the file again") from e
        yield metadata


def _entries(path: Path) -> Iterator[tuple[Any, Any]]:
    """Give the entries of the outermost dictionary."""
    # The library that takes pickles apart for inspection: it builds no objects. Imported here, where it is explained.
    import pickletools

    machine = _Machine(path)
    with path.open("rb") as file:
        try:
            for opcode, argument, _ in pickletools.genops(file):
                if opcode.name == "STOP":
                    return
                yield from machine.follow(opcode.name, argument)
        except CorruptError:
            raise
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as e:
            raise CorruptError(f"cannot read {path}: {e}; copy the file again") from e
    raise CorruptError(f"{path} ends before its end; copy the file again")


class _Machine:
    """A stack and a memory, as pickles have them, for plain data alone."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stack: list[Any] = []
        self._outermost: Any = None
        self._first: dict[int, Any] = {}
        self._last: dict[int, Any] = {}
        self._n_remembered = 0

    def follow(self, name: str, argument: Any) -> Iterator[tuple[Any, Any]]:
        """Follow one instruction; give the entries that it adds to the outermost dictionary."""
        if name == "SETITEM":
            value, key = self._stack.pop(), self._stack.pop()
            yield from self._set([key, value])
        elif name == "SETITEMS":
            yield from self._set(self._since_mark())
        elif name in ("MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"):
            self._remember(self._n_remembered if name == "MEMOIZE" else int(argument))
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            self._stack.append(self._recall(int(argument)))
        elif name not in _IGNORED:
            self._push(name, argument)

    def _push(self, name: str, argument: Any) -> None:
        """Follow an instruction that makes one object of none, of its argument, or of others on the stack."""
        stack = self._stack
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name])
        elif isinstance(argument, str | bytes | int) and name not in ("GLOBAL", "INST", "PERSID") and "EXT" not in name:
            stack.append(argument)
        elif name == "MARK":
            stack.append(_Mark())
        elif name == "EMPTY_DICT":
            stack.append({})
            if self._outermost is None:
                self._outermost = stack[-1]
        elif name == "EMPTY_TUPLE":
            stack.append(())
        elif name == "TUPLE":
            stack.append(tuple(self._since_mark()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            n = int(name[-1])
            stack[-n:] = [tuple(stack[-n:])]
        elif name == "GLOBAL":
            stack.append(_Name(*str(argument).split(" ", 1)))
        elif name == "STACK_GLOBAL":
            stack[-2:] = [_Name(stack[-2], stack[-1])]
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(self._number_type(function, arguments))
        elif name == "BUILD":
            state, target = stack.pop(), stack[-1]
            self._set_byte_order(target, state)
        else:
            raise self._refused(f"the instruction {name}")

    def _since_mark(self) -> list[Any]:
        """Return the objects since the last mark, in order, and take them off the stack with it."""
        position = next(i for i in range(len(self._stack) - 1, -1, -1) if isinstance(self._stack[i], _Mark))
        objects = self._stack[position + 1 :]
        del self._stack[position:]
        return objects

    def _set(self, objects: list[Any]) -> Iterator[tuple[Any, Any]]:
        pairs = list(zip(objects[::2], objects[1::2], strict=True))
        target = self._stack[-1]
        if not isinstance(target, dict):
            raise self._refused(f"entries of a {type(target).__name__}")
        if target is self._outermost:
            yield from pairs
        else:
            target.update(pairs)

    def _remember(self, number: int) -> None:
        """Keep the first objects for good (the names that every entry shares) and the newest ones for a while."""
        self._n_remembered += 1
        if len(self._first) < _REMEMBERED:
            self._first[number] = self._stack[-1]
            return
        self._last[number] = self._stack[-1]
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]

    def _recall(self, number: int) -> Any:
        found = self._first.get(number, self._last.get(number, self))
        if found is self:
            raise self._refused("a reference to something far before")
        return found

    def _number_type(self, function: Any, arguments: Any) -> _NumberType:
        if not isinstance(function, _Name) or (function.module, function.name) != _DTYPE:
            asked = f"{function.module}.{function.name}" if isinstance(function, _Name) else type(function).__name__
            raise self._refused(f"a call of {asked}")
        if not isinstance(arguments, tuple) or not arguments or arguments[0] not in _NUMBER_TYPES:
            raise self._refused(f"the number type {arguments!r}")
        return _NumberType(arguments[0])

    def _set_byte_order(self, target: Any, state: Any) -> None:
        if not isinstance(target, _NumberType) or not isinstance(state, tuple) or len(state) < 2:
            raise self._refused(f"a state for {type(target).__name__}")
        if state[1] not in ("<", ">", "=", "|"):
            raise self._refused(f"the byte order {state[1]!r}")
        target.byte_order = state[1]

    def _refused(self, what: str) -> CorruptError:
        return CorruptError(
            f"{self._path} contains {what}, wanted texts, bytes and number types alone; nothing of it was run: "
            "take the file DensePhrases published, or import the phrase dump itself"
        )
