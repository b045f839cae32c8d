"""Reader of the methods in a Java class file (JVM specification, chapter 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_UTF8, _CLASS, _LONG, _DOUBLE = 1, 7, 5, 6
_BYTES: Mapping[int, int] = {
    **dict.fromkeys((3, 4, 9, 10, 11, 12, 17, 18), 4),
    **dict.fromkeys((_LONG, _DOUBLE), 8),
    **dict.fromkeys((_CLASS, 8, 16, 19, 20), 2),
    15: 3,
}
"""Tag of a constant → number of its bytes; texts have their own length."""

_NATIVE, _ABSTRACT = 0x0100, 0x0400


@dataclass(frozen=True)
class Method:
    """Method of a class file."""

    name: str
    parameters: str  # As in source code, such as `int, java.lang.String`
    line: int  # Line of its first instruction; 0 if the class file does not say
    uncounted: str  # Why its entries cannot be counted: `native` or `abstract`; '' if they can


@dataclass(frozen=True)
class ClassFile:
    """Class and its methods."""

    name: str  # With dots, and `$` before nested classes
    source: str  # Name of the source file; '' if the class file does not say
    methods: tuple[Method, ...]


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def number(self, size: int) -> int:
        self.at += size
        if self.at > len(self.data):
            raise ValueError("the class file is cut short")
        return int.from_bytes(self.data[self.at - size : self.at], "big")

    def skip(self, size: int) -> None:
        self.at += size

    def attributes(self) -> list[tuple[int, int, int]]:
        """Return the name's constant, the begin and the end of each attribute."""
        found = []
        for _ in range(self.number(2)):
            name, size = self.number(2), self.number(4)
            found.append((name, self.at, self.at + size))
            self.skip(size)
        return found


def read_class_file(data: bytes) -> ClassFile:
    """Read a class file; raise ValueError if it is damaged."""
    reader = _Reader(data)
    if reader.number(4) != 0xCAFEBABE:
        raise ValueError("this is not a class file")
    reader.skip(4)
    texts, classes = _constants(reader)
    reader.skip(2)
    name = texts.get(classes.get(reader.number(2), 0), "").replace("/", ".")
    reader.skip(2)
    reader.skip(2 * reader.number(2))
    for _ in range(reader.number(2)):
        reader.skip(6)
        reader.attributes()
    methods = tuple(_method(reader, texts) for _ in range(reader.number(2)))
    source = next((begin for number, begin, _ in reader.attributes() if texts.get(number) == "SourceFile"), None)
    if source is None:
        return ClassFile(name, "", methods)
    return ClassFile(name, texts.get(int.from_bytes(data[source : source + 2], "big"), ""), methods)


def _constants(reader: _Reader) -> tuple[dict[int, str], dict[int, int]]:
    """Return the texts, and the name's index of each class, by their indices in the constant pool."""
    texts, classes = {}, {}
    count, index = reader.number(2), 1
    while index < count:
        tag = reader.number(1)
        if tag == _UTF8:
            size = reader.number(2)
            texts[index] = reader.data[reader.at : reader.at + size].decode(errors="replace")
            reader.skip(size)
        elif tag == _CLASS:
            classes[index] = reader.number(2)
        elif tag in _BYTES:
            reader.skip(_BYTES[tag])
        else:
            raise ValueError(f"a constant of the class file has the unknown tag {tag}")
        index += 2 if tag in (_LONG, _DOUBLE) else 1
    return texts, classes


def _method(reader: _Reader, texts: Mapping[int, str]) -> Method:
    flags, name, descriptor = reader.number(2), reader.number(2), reader.number(2)
    line = 0
    for number, begin, _ in reader.attributes():
        if texts.get(number) == "Code":
            line = _first_line(_Reader(reader.data), begin, texts)
    why = "native" if flags & _NATIVE else "abstract" if flags & _ABSTRACT else ""
    return Method(texts.get(name, ""), ", ".join(_parameters(texts.get(descriptor, "()V"))), line, why)


def _first_line(reader: _Reader, begin: int, texts: Mapping[int, str]) -> int:
    reader.skip(begin + 4)
    reader.skip(reader.number(4))
    reader.skip(8 * reader.number(2))
    for number, start, _ in reader.attributes():
        if texts.get(number) == "LineNumberTable" and int.from_bytes(reader.data[start : start + 2], "big"):
            return int.from_bytes(reader.data[start + 4 : start + 6], "big")
    return 0


_PRIMITIVES = {
    "B": "byte", "C": "char", "D": "double", "F": "float", "I": "int", "J": "long", "S": "short", "Z": "boolean",
}  # fmt: skip


def _parameters(descriptor: str) -> list[str]:
    found, at, arrays = [], 1, 0
    while at < len(descriptor) and descriptor[at] != ")":
        sign = descriptor[at]
        if sign == "[":
            arrays += 1
            at += 1
            continue
        end = descriptor.find(";", at) if sign == "L" else at
        if end < 0:
            break
        own = descriptor[at + 1 : end].replace("/", ".") if sign == "L" else _PRIMITIVES.get(sign, sign)
        found.append(own + "[]" * arrays)
        at, arrays = end + 1, 0
    return found
