"""Records of a state: JSON objects that end with the CRC-32 of the bytes before it, read as dataclasses."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing
import zlib
from collections.abc import Callable, Mapping
from typing import Annotated, Any

from ..kernel.values import shown

SEAL = re.compile(rb'(.*), "crc32": "([0-9a-f]{8})"\}', re.DOTALL)


def sealed(record: Any) -> str:
    """Return a record, a dataclass or a mapping, as JSON that ends with its CRC-32."""
    text = json.dumps(record, default=vars, ensure_ascii=False).removesuffix("}")
    return f'{text}, "crc32": "{zlib.crc32(text.encode()):08x}"}}'


def record_in(data: bytes) -> dict[str, Any]:
    """Return the JSON object that a file contains; raise ValueError if it contains none."""
    try:
        record = json.loads(data.decode())
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(record, dict):
        raise ValueError("it is not a JSON object")
    return record


def check_seal(data: bytes) -> None:
    """Raise ValueError if the CRC-32 of a record differs or is missing."""
    seal = SEAL.fullmatch(data)
    if seal and f"{zlib.crc32(seal[1]):08x}".encode() != seal[2]:
        raise ValueError("its CRC-32 differs")
    if not seal:
        raise ValueError("its CRC-32 is missing")


# Dataclasses from JSON


class Misfit(Exception):
    """Raised when a JSON value does not have the expected type: ``what`` is wrong with it, and ``where`` it is in the
    record."""

    def __init__(self, what: str, where: str = "") -> None:
        """Note what is wrong."""
        super().__init__(what)
        self.what, self.where = what, where

    def within(self, place: str) -> Misfit:
        """Return the same for the value around it."""
        return Misfit(self.what, place + self.where)


def from_json(kind: Any, value: Any, place: str = "") -> Any:
    """Return a JSON value as the given type: a dataclass, a mapping, a tuple, a type annotated with a condition, or a
    plain type. Raise ValueError, which names the ``place`` in the record, if the value does not fit."""
    try:
        return json_reader(kind)(value)
    except Misfit as error:
        raise ValueError(f"{place + error.where or 'it'} {error.what}".lstrip()) from None


def not_fitting(value: Any) -> Misfit:
    """Return the error for a value of another type."""
    return Misfit(f"cannot be {shown(value)}")


@functools.cache
def json_reader(kind: Any) -> Callable[[Any], Any]:
    """Return the function that returns JSON values as a type, or raises Misfit. A record has many values of few types:
    what follows from a type is found out once."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is Annotated:
        return annotated_reader(json_reader(inner[0]), inner[1])
    if dataclasses.is_dataclass(kind):
        return members_reader(kind)
    if origin is Mapping:
        return mapping_reader(inner[0], json_reader(inner[1]))
    if origin is tuple:
        return tuple_reader(tuple(json_reader(one) for one in inner if one is not Ellipsis), inner[-1] is Ellipsis)

    def read(value: Any) -> Any:
        if kind is Any or type(value) is kind or (kind is float and type(value) is int):
            return value
        raise not_fitting(value)

    return read


def annotated_reader(read: Callable[[Any], Any], condition: Callable[[Any], bool]) -> Callable[[Any], Any]:
    """Return a function that reads values and checks a condition."""

    def checked(value: Any) -> Any:
        fitting = read(value)
        if not condition(fitting):
            raise not_fitting(value)
        return fitting

    return checked


def mapping_reader(kind: Any, read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function that reads a JSON object, whose names are keys of a ``kind``, as a mapping."""
    read_name = json_reader(kind)

    def read_mapping(value: Any) -> Any:
        if not isinstance(value, dict):
            raise not_fitting(value)
        items = {}
        for name, item in value.items():
            try:
                key = int(name) if kind is int and re.fullmatch("0|[1-9][0-9]*", name) else read_name(name)
            except Misfit as error:
                raise error.within(", a name") from None
            try:
                items[key] = read(item)
            except Misfit as error:
                raise error.within(f" {shown(key)}") from None
        return items

    return read_mapping


def tuple_reader(reads: tuple[Callable[[Any], Any], ...], several: bool) -> Callable[[Any], Any]:
    """Return a function that reads a JSON array of one kind of items, or of one item of each kind, as a tuple."""

    def read_tuple(value: Any) -> Any:
        if not isinstance(value, list) or not (several or len(value) == len(reads)):
            raise not_fitting(value)
        try:
            if several:
                return tuple(map(reads[0], value))
            return tuple(read(item) for read, item in zip(reads, value, strict=True))
        except Misfit as error:
            raise error.within(", an item") from None

    return read_tuple


def members_reader(kind: Any) -> Callable[[Any], Any]:
    """Return a function that reads a JSON object, which may lack members that have a default, as a dataclass."""
    hints = typing.get_type_hints(kind, include_extras=True)
    members = [
        (item.name, json_reader(hints[item.name]), item.default is item.default_factory is dataclasses.MISSING)
        for item in dataclasses.fields(kind)
    ]

    def read_members(record: Any) -> Any:
        if not isinstance(record, dict):
            raise not_fitting(record)
        values = {}
        for name, read, needed in members:
            if name in record:
                try:
                    values[name] = read(record[name])
                except Misfit as error:
                    raise error.within(f" {name}") from None
            elif needed:
                raise Misfit(f"has no {name}")
        return kind(**values)

    return read_members
