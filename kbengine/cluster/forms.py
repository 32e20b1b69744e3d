"""How each type hint is written as plain JSON values with arrays aside, and read back with every part checked.

Where something does not fit is put together on the way out: what fits, nearly everything, pays nothing for it.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray

from kbengine.cluster.misfit import Misfit, wrong
from kbengine.errors import KBError, MessageError

KIND = "kind"
"""The key under which one of several dataclasses of a union is named."""


@dataclass
class Writing:
    """The arrays of a message that is being written."""

    arrays: list[NDArray[Any]] = field(default_factory=list)

    def add(self, array: NDArray[Any]) -> int:
        """Return the array's number in the message."""
        self.arrays.append(array)
        return len(self.arrays) - 1


@dataclass
class Reading:
    """The arrays of a message that is being read, and the numbers of those that were not asked for yet."""

    arrays: Sequence[NDArray[Any]]
    unread: set[int] = field(init=False)

    def __post_init__(self) -> None:
        self.unread = set(range(len(self.arrays)))

    def take(self, number: object) -> NDArray[Any]:
        """Return the array of a number; each has one place."""
        if type(number) is not int or number not in self.unread:
            raise Misfit(f" is array {number!r}, wanted one of {len(self.arrays)}, each once")
        self.unread.discard(number)
        return self.arrays[number]


@dataclass(frozen=True)
class Form:
    """How values of one type hint are written and read; `says` is the hint in words.

    Both raise `Misfit`; `fits` tells beforehand whether a plain value is of the kind, None where only trying tells.
    """

    says: str
    write: Callable[[Any, Writing], Any]
    read: Callable[[Any, Reading], Any]
    fits: Callable[[Any], bool] | None = None


def form_of(hint: Any) -> Form:
    """Return the form of a type hint.

    Raises:
        MessageError: it has none: only dataclasses and named tuples of arrays, numbers, texts, bytes, None, tuples,
            lists, mappings and literals can be sent.
    """
    return _form_of(hint)


@lru_cache(maxsize=1024)
def _form_of(hint: Any) -> Form:
    if hint is None or hint is type(None):
        return _plain("None", lambda value: value is None)
    if hint is Any or hint is object or isinstance(hint, ForwardRef):  # what is JSON by its name is plain JSON
        return _json()
    if isinstance(hint, type) and hint in _PLAIN:
        return _PLAIN[hint]
    if hasattr(hint, "__supertype__"):
        return form_of(hint.__supertype__)
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _plain(
            "one of " + ", ".join(map(repr, arguments)),
            lambda value: any(type(value) is type(each) and value == each for each in arguments),
        )
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is np.ndarray or hint is np.ndarray:
        return _array(arguments)
    if origin is tuple:
        return _items(arguments[0], tuple) if len(arguments) == 2 and arguments[1] is ... else _fixed(arguments)
    if origin is list or (isinstance(origin, type) and issubclass(origin, Sequence)):
        return _items(arguments[0], list if origin is list else tuple)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(*arguments)
    if isinstance(hint, type) and (dataclasses.is_dataclass(hint) or _is_named_tuple(hint)):
        return _record(hint)
    raise MessageError(f"the type {hint!r} cannot be sent; wanted dataclasses of arrays, numbers, texts and tuples")


def _plain(says: str, fits: Callable[[Any], bool], to: Callable[[Any], Any] | None = None) -> Form:
    def write(value: Any, _writing: Writing) -> Any:
        return read(value.item() if isinstance(value, np.generic) else value, None)

    def read(value: Any, _reading: Reading | None) -> Any:
        if not fits(value):
            raise wrong(value, says)
        return value if to is None else to(value)

    return Form(says, write, read, fits)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _bytes() -> Form:
    def write(value: Any, writing: Writing) -> Any:
        if not isinstance(value, bytes):
            raise wrong(value, "bytes")
        return writing.add(np.frombuffer(value, np.uint8))

    def read(value: Any, reading: Reading) -> Any:
        array = reading.take(value)
        if array.dtype != np.uint8 or array.ndim != 1:
            raise wrong(array, "bytes")
        return array.tobytes()

    return Form("bytes", write, read)


_PLAIN: Mapping[type, Form] = {
    bool: _plain("true or false", lambda value: isinstance(value, bool)),
    int: _plain("a whole number", _is_int),
    float: _plain("a number", lambda value: isinstance(value, float) or _is_int(value), float),
    str: _plain("a text", lambda value: isinstance(value, str), str),
    bytes: _bytes(),
}


def _json() -> Form:
    def check(value: Any, _arrays: object) -> Any:
        if isinstance(value, list | tuple):
            return _each(((f"[{i}]", each) for i, each in enumerate(value)), lambda each: check(each, None))
        if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
            found = _each(((f"[{key!r}]", each) for key, each in value.items()), lambda each: check(each, None))
            return dict(zip(value, found, strict=True))
        if value is None or isinstance(value, bool | int | float | str):
            return value
        raise wrong(value, "a JSON value")

    return Form("a JSON value", check, check)


def _each(items: typing.Iterable[tuple[str, Any]], convert: Callable[[Any], Any]) -> list[Any]:
    """Return what each item is converted to; the first of a pair is the step to it."""
    found = []
    for step, each in items:
        try:
            found.append(convert(each))
        except Misfit as misfit:
            raise misfit.at(step) from None
    return found


def _array(arguments: tuple[Any, ...]) -> Form:
    inner = get_args(arguments[1]) if len(arguments) == 2 else ()
    wanted = inner[0] if inner else Any
    exact = np.dtype(wanted) if isinstance(wanted, type) and not _is_abstract(wanted) else None
    says = f"an array of {exact}" if exact is not None else "an array"

    def fits(value: Any) -> bool:
        return isinstance(value, np.ndarray) and (exact is None or value.dtype == exact)

    def write(value: Any, writing: Writing) -> Any:
        if not fits(value):
            raise wrong(value, says)
        return writing.add(value)

    def read(value: Any, reading: Reading) -> Any:
        array = reading.take(value)
        if not fits(array):
            raise wrong(array, says)
        return array

    return Form(says, write, read)


def _is_abstract(wanted: type) -> bool:
    return wanted in (np.generic, np.number, np.integer, np.floating, np.signedinteger, np.unsignedinteger)


def _items(hint: Any, make: Callable[[list[Any]], Any]) -> Form:
    form, says = form_of(hint), "a sequence"

    def all_of(value: Any, convert: Callable[[Any, Any], Any], arrays: Any) -> list[Any]:
        found: list[Any] = []
        try:
            for each in value:
                found.append(convert(each, arrays))
        except Misfit as misfit:
            raise misfit.at(f"[{len(found)}]") from None
        return found

    def write(value: Any, writing: Writing) -> Any:
        if not isinstance(value, list | tuple):
            raise wrong(value, says)
        return all_of(value, form.write, writing)

    def read(value: Any, reading: Reading) -> Any:
        if not isinstance(value, list):
            raise wrong(value, says)
        return make(all_of(value, form.read, reading))

    return Form(says, write, read)


def _fixed(hints: tuple[Any, ...]) -> Form:
    forms, says = [form_of(hint) for hint in hints], f"{len(hints)} values"

    def all_of(value: Any, convert: Callable[[Form, Any], Any]) -> list[Any]:
        pairs = ((f"[{i}]", pair) for i, pair in enumerate(zip(forms, value, strict=True)))
        return _each(pairs, lambda pair: convert(*pair))

    def write(value: Any, writing: Writing) -> Any:
        if not isinstance(value, tuple) or len(value) != len(forms):
            raise wrong(value, says)
        return all_of(value, lambda form, each: form.write(each, writing))

    def read(value: Any, reading: Reading) -> Any:
        if not isinstance(value, list) or len(value) != len(forms):
            raise wrong(value, says)
        return tuple(all_of(value, lambda form, each: form.read(each, reading)))

    return Form(says, write, read)


def _mapping(key_hint: Any, value_hint: Any) -> Form:
    """Return the form of a mapping: its pairs, so that keys may be more than texts, in their order."""
    pairs, says = _items(tuple[key_hint, value_hint], list), "a mapping"

    def write(value: Any, writing: Writing) -> Any:
        if not isinstance(value, Mapping):
            raise wrong(value, says)
        return pairs.write(list(value.items()), writing)

    def read(value: Any, reading: Reading) -> Any:
        found = pairs.read(value, reading)
        made = dict(found)
        if len(made) != len(found):
            raise wrong(value, "a mapping whose keys come once")
        return made

    return Form(says, write, read)


def _union(arguments: tuple[Any, ...]) -> Form:
    """Return the form of one of several hints: a dataclass is named, of the others the first that fits is taken."""
    if any(isinstance(each, ForwardRef) or _holds_forward_reference(each) for each in arguments):
        return _json()  # storage.records.JSON, which speaks of itself
    named = {each.__name__: each for each in arguments if isinstance(each, type) and dataclasses.is_dataclass(each)}
    others = [form_of(each) for each in arguments if each not in named.values()]
    if len(arguments) == 2 and arguments[-1] is type(None):
        return _optional(form_of(arguments[0]))
    says = " or ".join([*named, *(form.says for form in others)])

    def write(value: Any, writing: Writing) -> Any:
        kind = named.get(type(value).__name__)
        if kind is type(value):
            return {KIND: kind.__name__, "of": form_of(kind).write(value, writing)}
        plain = value.item() if isinstance(value, np.generic) else value
        for form in others:
            if form.fits is not None and not form.fits(plain):
                continue
            before = len(writing.arrays)
            try:
                return form.write(value, writing)
            except Misfit:
                del writing.arrays[before:]
        raise wrong(value, says)

    def read(value: Any, reading: Reading) -> Any:
        if isinstance(value, dict) and set(value) == {KIND, "of"} and isinstance(value[KIND], str):
            if value[KIND] not in named:
                raise wrong(value[KIND], says).at("'s kind")
            return form_of(named[value[KIND]]).read(value["of"], reading)
        for form in others:
            if form.fits is not None and not form.fits(value):
                continue
            before = set(reading.unread)
            try:
                return form.read(value, reading)
            except Misfit:
                reading.unread = before
        raise wrong(value, says)

    return Form(says, write, read)


def _optional(form: Form) -> Form:
    """Return the form of something or None, which need not be named; what is None in itself is written so."""

    def write(value: Any, writing: Writing) -> Any:
        return None if value is None else form.write(value, writing)

    def read(value: Any, reading: Reading) -> Any:
        return None if value is None else form.read(value, reading)

    return Form(f"{form.says} or None", write, read)


def _holds_forward_reference(hint: Any) -> bool:
    return any(isinstance(each, ForwardRef | str) or _holds_forward_reference(each) for each in get_args(hint))


def _is_named_tuple(hint: type) -> bool:
    return issubclass(hint, tuple) and hasattr(hint, "_fields")


def _record(kind: type) -> Form:
    """Return the form of a dataclass or named tuple: its fields by name, all of them and no others."""
    names: Sequence[str]
    if _is_named_tuple(kind):
        names = kind._fields  # type: ignore[attr-defined]  # of a named tuple
    else:
        if not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]  # of a dataclass
            raise MessageError(f"the dataclass {kind.__name__} is not frozen and cannot be sent")
        names = [each.name for each in dataclasses.fields(kind) if each.init]
    try:
        hints = typing.get_type_hints(kind)
    except NameError as error:
        raise MessageError(f"a type hint of {kind.__name__} cannot be read: {error}; import it at run time") from error
    made: list[tuple[str, Form]] = []
    known = frozenset(names)

    def forms() -> list[tuple[str, Form]]:  # when they are needed, so that a class may speak of itself
        nonlocal made
        made = made or [(name, form_of(hints[name])) for name in names]
        return made

    def write(value: Any, writing: Writing) -> Any:
        if type(value) is not kind:
            raise wrong(value, f"a {kind.__name__}")
        parts: dict[str, Any] = {}
        name = ""
        try:
            for name, form in forms():  # it is the step where something does not fit
                parts[name] = form.write(getattr(value, name), writing)
        except Misfit as misfit:
            raise misfit.at(f".{name}") from None
        return parts

    def read(value: Any, reading: Reading) -> Any:
        if not isinstance(value, dict):
            raise wrong(value, f"a {kind.__name__}")
        if value.keys() != known:
            odd = sorted(set(value) ^ known)[0]
            problem = "is not a field of" if odd in value else "is missing from"
            raise Misfit(f".{odd} {problem} a {kind.__name__}; do both processes run the same kbengine?")
        parts: dict[str, Any] = {}
        name = ""
        try:
            for name, form in forms():
                parts[name] = form.read(value[name], reading)
        except Misfit as misfit:
            raise misfit.at(f".{name}") from None
        try:
            return kind(**parts)
        except (KBError, ValueError, TypeError) as error:  # what its own check says
            raise Misfit(f" is no {kind.__name__}: {error}") from error

    return Form(f"a {kind.__name__}", write, read)
