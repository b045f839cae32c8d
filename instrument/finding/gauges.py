"""Gauges: variables with static storage, or parts of them, whose value the sampler reads from memory.

No code is added to the program. An entry with the variable's address is inserted after the variable's definition::

    static struct __unperturbed_gauge __unperturbed_gauge_0 __attribute__((section("unperturbed_gauges"), …)) =
    {&queue.length, …};

The sampler reads memory: it sees a value that optimised code keeps in a register only when the value is written back.
The entry takes the address of a `static` variable, so the optimiser can no longer remove the variable or assume that
calls do not change it. For a variable that other translation units can access anyway, the code stays the same.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple

from clang.cindex import AccessSpecifier, CursorKind, LinkageKind, StorageClass, TLSKind, Type, TypeKind, conf

from unperturbed.common.wording import counted
from unperturbed.instrument.events.kind import InsertionPoint, ParsedFunction, Variable
from unperturbed.instrument.events.targets import GaugeTarget
from unperturbed.instrument.finding.declarations import RECORD_KINDS, qualified_name
from unperturbed.instrument.finding.preprocessed import after_parentheses, next_token, span

_ARRAYS = (TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY)
_UNSIGNED = (
    *(TypeKind.BOOL, TypeKind.UCHAR, TypeKind.USHORT, TypeKind.UINT, TypeKind.ULONG, TypeKind.ULONGLONG),
    *(TypeKind.CHAR16, TypeKind.CHAR32, TypeKind.POINTER),
)
_SIGNED = (TypeKind.SCHAR, TypeKind.SHORT, TypeKind.INT, TypeKind.LONG, TypeKind.LONGLONG)
_BY_MACHINE = {TypeKind.CHAR_S: "char", TypeKind.CHAR_U: "char", TypeKind.WCHAR: "wchar_t"}
_FLOATING = (TypeKind.FLOAT, TypeKind.DOUBLE, TypeKind.LONGDOUBLE, TypeKind.FLOAT128, TypeKind.HALF, TypeKind.COMPLEX)
_BYTES = (1, 2, 4, 8)
_CLOSED = (AccessSpecifier.PRIVATE, AccessSpecifier.PROTECTED)
_TEMPLATES = (CursorKind.CLASS_TEMPLATE, CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION, CursorKind.FUNCTION_TEMPLATE)
_BRACED = (CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL)
_SHOWN_FIELDS = 8


@cache
def _value_type() -> Any:
    """Return the function for the value type of an atomic type, which libclang has and its bindings have not."""
    function = conf.lib.clang_Type_getValueType
    function.argtypes, function.restype, function.errcheck = [Type], Type, Type.from_result
    return function


class Gauge(NamedTuple):
    """Memory that a gauge reads, as C expressions."""

    before: str  # Declarations before the entry
    # address, bytes, is_signed: The entry's members.
    address: str
    bytes: str
    is_signed: str
    opens: bool  # The variable is private: `before` needs the template that gives access


class _UngaugeableError(Exception):
    """The variable cannot be a gauge; the message gives the reason."""


class _Place(NamedTuple):
    """Part of a variable."""

    type: Any  # libclang's type
    text: str  # C text after the variable's name
    offset_bits: int | None  # Offset in the variable; None if unknown
    closed: bool  # Whether a name on the path to the part is private


def is_definition(variable: Any, *, is_cxx: bool) -> bool:
    """Return whether a declaration reserves memory; in C a tentative definition such as `int x;` also does."""
    if variable.is_definition():
        return True
    return not is_cxx and variable.storage_class != StorageClass.EXTERN


def gauge_of(variable: Variable, target: GaugeTarget, data: bytes, standard: str) -> tuple[InsertionPoint, Gauge] | str:
    """Return the position and content of a variable's entry, or the reason why it cannot be a gauge."""
    cursor = variable.cursor
    try:
        _check_storage(cursor, data, variable.function, in_block=variable.in_block)
        place = _part(cursor, target)
        is_signed = _signedness(place.type, f"{target.whole}{place.text}")
        gauge = _gauge(cursor, place, standard, is_signed)
    except _UngaugeableError as error:
        return str(error)
    of_class = cursor.semantic_parent.kind in RECORD_KINDS
    behind = _behind(variable.outermost if of_class else cursor, data)
    record = cursor.type.get_canonical().get_declaration().get_definition()
    if record is not None and span(record)[0] > behind:
        behind = _behind(record, data)  # C: `struct s x; struct s {…};`
    return InsertionPoint("gauge", behind, behind, cursor.location.offset), gauge


def _check_storage(variable: Any, data: bytes, function: ParsedFunction | None, *, in_block: bool) -> None:
    name = variable.spelling
    if variable.tls_kind != TLSKind.NONE or re.search(
        rb"#pragma omp threadprivate\s*\([^)\n]*\b%b\b" % name.encode(), data
    ):
        raise _UngaugeableError(f"`{name}` is thread-local: every thread has its own copy")
    if variable.storage_class == StorageClass.REGISTER:
        raise _UngaugeableError(f"`{name}` is declared `register`: it has no address in memory")
    if function is not None and variable.storage_class != StorageClass.STATIC:
        raise _UngaugeableError(f"`{name}` is an automatic variable: it has no fixed address in memory")
    if variable.type.get_canonical().kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
        raise _UngaugeableError(f"`{name}` is a reference: use the variable that it refers to")
    scope = variable.semantic_parent
    while scope is not None and scope.kind.is_declaration():
        if scope.kind in _TEMPLATES or (scope.kind in RECORD_KINDS and "<" in scope.displayname):
            raise _UngaugeableError(f"`{name}` belongs to a template: every instantiation has its own copy")
        scope = scope.semantic_parent
    if function is None:
        return
    if not in_block:
        raise _UngaugeableError(f"`{name}` is declared where no statement can follow: declare it in a block")
    holder: ParsedFunction | None = function
    while holder is not None:
        if _has_copies(holder):
            raise _UngaugeableError(f"`{name}` is in an inline function: only that function's code can refer to it")
        holder = holder.outer


def _has_copies(function: ParsedFunction) -> bool:
    """Return whether each translation unit may copy a function; only the function's code can then use its variables."""
    if function.is_lambda:
        return False
    internal = function.cursor.linkage in (LinkageKind.INTERNAL, LinkageKind.UNIQUE_EXTERNAL)
    return bool(conf.lib.clang_Cursor_isFunctionInlined(function.cursor)) and not internal


def _part(variable: Any, target: GaugeTarget) -> _Place:
    place = _Place(variable.type.get_canonical(), "", 0, closed=False)
    for part in target.parts:
        _check_constant(place, target)
        shown = f"{target.whole}{place.text}"
        if place.type.kind == TypeKind.POINTER:
            raise _UngaugeableError(f"`{shown}` is a pointer: the memory that it points to has no fixed address")
        place = _element(place, part, shown) if isinstance(part, int) else _field(place, part, shown)
    _check_constant(place, target)
    return place


def _check_constant(place: _Place, target: GaugeTarget) -> None:
    checked = place.type
    while checked.kind in _ARRAYS and not checked.is_const_qualified():
        checked = checked.get_array_element_type().get_canonical()
    if checked.is_const_qualified() and not checked.is_volatile_qualified():
        raise _UngaugeableError(f"`{target.whole}{place.text}` is `const`: its value does not change")


def _element(place: _Place, index: int, shown: str) -> _Place:
    if place.type.kind not in _ARRAYS:
        raise _UngaugeableError(f"`{shown}` is not an array: its type is {place.type.spelling}")
    element = place.type.get_array_element_type().get_canonical()
    if place.type.kind == TypeKind.CONSTANTARRAY and index >= place.type.get_array_size():
        size = counted(place.type.get_array_size(), "element")
        raise _UngaugeableError(f"`{shown}` has only {size}, starting at [0]")
    if place.type.kind == TypeKind.INCOMPLETEARRAY:
        raise _UngaugeableError(f"`{shown}` is an array of unknown size")
    offset = None if place.offset_bits is None else place.offset_bits + 8 * index * element.get_size()
    return place._replace(type=element, text=f"{place.text}[{index}]", offset_bits=offset)


def _field(place: _Place, name: str, shown: str) -> _Place:
    if place.type.kind != TypeKind.RECORD:
        raise _UngaugeableError(f"`{shown}` has no fields: its type is {place.type.spelling}")
    member = _find_field(place.type, name)
    if member is None:
        names = _field_names(place.type)
        listed = [*names[:_SHOWN_FIELDS], *("…" for _ in names[_SHOWN_FIELDS : _SHOWN_FIELDS + 1])]
        raise _UngaugeableError(f"`{shown}` has no field `{name}`" + (f"; it has {', '.join(listed)}" if names else ""))
    field, offset, closed = member
    if field.is_bitfield():
        raise _UngaugeableError(f"`{shown}.{name}` is a bit field: it has no address")
    if field.type.get_canonical().kind in (TypeKind.LVALUEREFERENCE, TypeKind.RVALUEREFERENCE):
        raise _UngaugeableError(f"`{shown}.{name}` is a reference: use the variable that it refers to")
    offset_bits = None if offset is None or place.offset_bits is None else place.offset_bits + offset
    return _Place(field.type.get_canonical(), f"{place.text}.{name}", offset_bits, place.closed or closed)


def _find_field(record: Any, name: str) -> tuple[Any, int | None, bool] | None:
    """Return a field (also of unnamed members), its bit offset (None if inherited), and whether it is private."""
    for field in record.get_fields():
        if field.spelling == name:
            return field, field.get_field_offsetof(), field.access_specifier in _CLOSED
        if field.is_anonymous():
            inner = _find_field(field.type.get_canonical(), name)
            if inner is not None:
                offset = None if inner[1] is None else field.get_field_offsetof() + inner[1]
                return inner[0], offset, inner[2] or field.access_specifier in _CLOSED
    for base in record.get_declaration().get_children():
        if base.kind == CursorKind.CXX_BASE_SPECIFIER:
            inner = _find_field(base.type.get_canonical(), name)
            if inner is not None:
                if conf.lib.clang_isVirtualBase(base):
                    where = "it has no fixed offset in its object"
                    raise _UngaugeableError(f"`{name}` belongs to a virtual base class: {where}")
                return inner[0], None, inner[2] or base.access_specifier in _CLOSED
    return None


def _field_names(record: Any) -> list[str]:
    names: list[str] = []
    for field in record.get_fields():
        names += _field_names(field.type.get_canonical()) if field.is_anonymous() else [field.spelling]
    return [name for name in names if name]


def _signedness(kind: Any, shown: str) -> str:
    """Return a C expression that is 1 if the type is signed, otherwise 0."""
    if kind.kind == TypeKind.ATOMIC:
        return _signedness(_value_type()(kind).get_canonical(), shown)
    if kind.kind == TypeKind.ENUM:
        return _signedness(kind.get_declaration().enum_type.get_canonical(), shown)
    if kind.kind in _UNSIGNED:
        return "0"
    if kind.kind in _SIGNED:
        return "1"
    if kind.kind in _BY_MACHINE:
        return f"(({_BY_MACHINE[kind.kind]})-1<0)"
    if kind.kind == TypeKind.RECORD:
        inner = _atomic_value(kind)
        if inner is not None:
            return _signedness(inner, shown) if inner.kind != TypeKind.RECORD else "0"
        names = ", ".join(f"{shown}.{name}" for name in _field_names(kind)[:_SHOWN_FIELDS])
        raise _UngaugeableError(f"`{shown}` is of type {kind.spelling}; name a field" + (f": {names}" if names else ""))
    if kind.kind in _ARRAYS:
        raise _UngaugeableError(f"`{shown}` is an array; name an element, such as `{shown}[0]`")
    what = "a floating-point number" if kind.kind in _FLOATING else f"of type {kind.spelling}"
    raise _UngaugeableError(f"`{shown}` is {what}; a gauge must be an integer, an enumeration or a pointer")


def _atomic_value(record: Any) -> Any | None:
    """Return the value type of a lock-free std::atomic, or std::atomic_flag itself; None for other types."""
    declaration = record.get_declaration()
    name = qualified_name(declaration)
    if name == "std::atomic_flag":
        return record
    if name != "std::atomic" or record.get_num_template_arguments() != 1:
        return None
    value = record.get_template_argument_type(0).get_canonical()
    return value if value.get_size() == record.get_size() and value.kind != TypeKind.RECORD else None


def _gauge(variable: Any, place: _Place, standard: str, is_signed: str) -> Gauge:
    size = place.type.get_size()
    if size not in _BYTES:
        raise _UngaugeableError(f"`{variable.spelling}{place.text}` has {size} bytes; a gauge must have 1, 2, 4 or 8")
    is_cxx = "++" in standard
    name = variable.spelling
    if variable.semantic_parent != variable.lexical_parent or variable.semantic_parent.kind in RECORD_KINDS:
        name = "::" + qualified_name(variable, inline=True)
    closed = _is_closed(variable)
    if (closed or place.closed) and place.offset_bits is None:
        raise _UngaugeableError(f"`{variable.spelling}{place.text}` is inherited and not public: it cannot be accessed")
    whole = variable.type.get_canonical().get_size()
    behind = f"+{(place.offset_bits or 0) // 8}"
    if closed:
        if standard.endswith("++98"):
            raise _UngaugeableError(f"`{variable.spelling}` is not public: taking its address requires C++11 or later")
        # Access is not checked where a template is instantiated explicitly (C++11, 14.7.2/12).
        tag = f"struct __unperturbed_tag_{variable.location.offset}"
        before = f"{tag}; constexpr const volatile void *__unperturbed_open({tag} *); "
        before += f"template struct __unperturbed_opener<{tag} *, decltype({name}), &{name}, {whole}>; "
        address = f"(const volatile char *)__unperturbed_open(({tag} *)0){behind}"
        return Gauge(before, address, str(size), is_signed, opens=True)
    if place.closed:
        check = f"typedef char __unperturbed_size_{variable.location.offset}[sizeof({name})=={whole}?1:-1]; "
        address = f"(const volatile char *)__builtin_addressof({name}){behind}"
        return Gauge(check, address, str(size), is_signed, opens=False)
    part = f"{name}{place.text}"
    address = f"__builtin_addressof({part})" if is_cxx else f"&{part}"
    return Gauge("", address, f"sizeof({part})", is_signed, opens=False)


def _is_closed(variable: Any) -> bool:
    """Return whether the variable, or a class that encloses it, is private or protected."""
    declaration = variable.canonical
    while declaration.semantic_parent is not None and declaration.semantic_parent.kind in RECORD_KINDS:
        if declaration.access_specifier in _CLOSED:
            return True
        declaration = declaration.semantic_parent
    return False


def _behind(declaration: Any, data: bytes) -> int:
    """Return the offset after a whole declaration, with all its declarators and its semicolon."""
    offset = span(declaration)[1]
    if declaration.kind in _BRACED and data[:offset].endswith(b"}"):
        return offset
    while True:
        token, start = next_token(data, offset)
        if token in (b";", b""):
            return start + len(token)
        offset = after_parentheses(data, start) if token in (b"(", b"[", b"{") else start + len(token)
