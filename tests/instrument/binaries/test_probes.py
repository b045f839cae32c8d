"""What is found in binaries without their source: functions, static probes, libraries.

Against binutils, in programs of the system too.
"""

from __future__ import annotations

import lzma
import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from unperturbed.errors import SpecError
from unperturbed.instrument.binaries import elf
from unperturbed.instrument.binaries.elf import demangle, read_binary, spellings
from unperturbed.instrument.binaries.probes import (
    HIT_COSTS,
    HIT_NS,
    ProbeSite,
    find_binary,
    find_probes,
    needed_libraries,
)
from unperturbed.instrument.events import Event, parse_event

C = """
#include <stdio.h>
#define KEPT __attribute__((noinline, noclone, used))
static KEPT int quiet(int x) { __asm__ volatile("" ::: "memory"); return x + 1; }
KEPT int loud(int x) { __asm__ volatile("" ::: "memory"); return x + 2; }
int __attribute__((noinline)) twin(int x) __attribute__((alias("loud")));
static int (*choose(void))(int) { return loud; }
int chosen(int x) __attribute__((ifunc("choose")));
int main(int n, char **v) { (void)v; printf("%d", quiet(n) + loud(n) + chosen(n)); return 0; }
"""
CXX = """
#include <string>
#include <vector>
#define KEPT __attribute__((noinline, used))
namespace ns {
KEPT int f(int a) { return a + 1; }
KEPT int f(double a) { return (int)a; }
template <class T> KEPT T g(T a) { return a + a; }
struct A {
    A(int); virtual ~A();
    KEPT int m(const char *) const { return 1; }
    KEPT int operator()(int x) { return x; }
    KEPT bool operator<(const A &) const { return true; }
    template <class T> KEPT std::size_t put(const std::vector<T> &v) { return v.size(); }
};
KEPT A::A(int) {}
KEPT A::~A() {}
namespace { KEPT int hidden(std::string s) { return (int)s.size(); } }
int use() { return hidden("three"); }
}
int main() {
    ns::A a(1), b(2); std::vector<int> v(3);
    return ns::f(1) + ns::f(1.0) + ns::g(1) + (int)ns::g(1.0) + a.m("") + a(1) + (a < b) + (int)a.put(v) + ns::use();
}
"""
Compile = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Compile:
    """Return a function that compiles a program or library."""

    def make(text: str, *flags: str, name: str = "program", language: str = "c") -> Path:
        source = tmp_path / f"{name}.{language}"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(text)
        command = ["gcc" if language == "c" else "g++", "-O1", str(source), *flags, "-o", str(tmp_path / name)]
        subprocess.run(command, check=True)
        return tmp_path / name

    return make


def names(path: Path, target: str) -> list[str]:
    return sorted(demangle(function.name) for function in read_binary(path).find_functions(target))


def refused(path: Path, target: str) -> str:
    with pytest.raises(SpecError) as caught:
        read_binary(path).find_functions(target)
    return str(caught.value)


def system_library(name: str) -> Path:
    listed = subprocess.run(["ldconfig", "-p"], capture_output=True, text=True, check=True).stdout
    found = re.search(rf"^\s+{re.escape(name)} .* => (\S+)", listed, re.MULTILINE)
    if not found:
        pytest.skip(f"no {name} on this host")
    return Path(found[1])


# Functions.


def test_functions_are_those_that_binutils_lists(build: Compile) -> None:
    for path in (build(C), system_library("libstdc++.so.6")):
        listed = subprocess.run(
            ["readelf", "-sW", "--sym-base=10", str(path)], capture_output=True, text=True, check=True
        ).stdout
        pattern = r": ([0-9a-f]+) +(\d+) (?:FUNC|IFUNC) +(\w+) +(\w+) +(\d+) (\S+)"
        expected = {
            (name.partition("@")[0], int(address, 16)) for address, _, _, _, _, name in re.findall(pattern, listed)
        }
        binary = read_binary(path)
        segments = subprocess.run(["readelf", "-lW", str(path)], capture_output=True, text=True, check=True).stdout
        loads = [
            tuple(int(part, 16) for part in load)
            for load in re.findall(r"LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", segments)
        ]

        def address(offset: int, loads: list[tuple[int, ...]] = loads) -> int:
            return next(begin + offset - at for at, begin, size in loads if at <= offset < at + size)

        assert {(function.name, address(function.offset)) for function in binary.functions} == expected
        assert len(expected) > 5


def test_a_static_function_an_alias_and_the_code_behind_them(build: Compile) -> None:
    binary = read_binary(build(C))
    (quiet,) = binary.find_functions("quiet")
    assert (quiet.exported, quiet.indirect) == (False, False)
    assert quiet.size > 0
    disassembled = subprocess.run(
        ["objdump", "-d", str(binary.path)], capture_output=True, text=True, check=True
    ).stdout
    first = re.search(r"<quiet>:\n\s+\w+:\s+((?:[0-9a-f]{2} )+)", disassembled)
    assert first
    assert binary.code(quiet.offset).startswith(bytes.fromhex(first[1]))
    assert binary.find_functions("twin")[0].offset == binary.find_functions("loud")[0].offset
    assert len(binary.find_functions("[tl][wo]*")) == 1
    assert "printf" in binary.imported
    assert binary.has_symbols


def test_what_is_chosen_at_load_time_has_no_code_of_its_own(build: Compile) -> None:
    assert "`chosen` is an IFUNC, which has no code of its own" in refused(build(C), "chosen")
    assert "`chose?` matches only IFUNCs" in refused(build(C), "chose?")
    # The old version of this symbol is a plain function, which nothing calls any more.
    assert "{preload: memcpy}" in refused(system_library("libc.so.6"), "memcpy")


def test_one_name_in_several_translation_units_and_clones_of_a_function(build: Compile, tmp_path: Path) -> None:
    other = tmp_path / "other.c"
    other.write_text(
        "static __attribute__((noinline, used)) int same(int x) { return x; }\nint use(int x) { return same(x); }\n"
    )
    text = """
    static __attribute__((noinline, used)) int same(int x) { return x + 1; }
    int use(int);
    static __attribute__((noinline)) int scaled(int x, int by) { volatile int y = x * by; return y; }
    int main(int n, char **v) { (void)v; return same(n) + use(n) + scaled(n, 3) + scaled(n + 1, 3); }"""
    path = build(text, str(other), "-O2")
    assert len(read_binary(path).find_functions("same")) == 2
    symbols = {function.name for function in read_binary(path).functions}
    assert "scaled" not in symbols, "the compiler was to make a clone of it"
    assert [function.name.partition(".")[0] for function in read_binary(path).find_functions("scaled")] == ["scaled"]


def test_names_of_cxx_as_people_write_them(build: Compile) -> None:
    path = build(CXX, name="cxx", language="cc")
    assert names(path, "ns::f") == ["ns::f(double)", "ns::f(int)"]
    assert names(path, "ns::f(int)") == ["ns::f(int)"]
    assert names(path, "::ns::f( double )") == ["ns::f(double)"]
    assert names(path, "_ZN2ns1fEi") == ["ns::f(int)"]
    assert names(path, "ns::g") == ["double ns::g<double>(double)", "int ns::g<int>(int)"]
    assert names(path, "ns::g<int>") == names(path, "ns::g<int>(int)") == ["int ns::g<int>(int)"]
    assert names(path, "ns::A::m") == names(path, "ns::A::m(char const*) const") == ["ns::A::m(char const*) const"]
    assert names(path, "ns::A::operator()") == ["ns::A::operator()(int)"]
    assert names(path, "ns::A::operator<") == ["ns::A::operator<(ns::A const&) const"]
    assert names(path, "ns::A::put") == ["unsigned long ns::A::put<int>(std::vector<int, std::allocator<int> > const&)"]
    assert names(path, "ns::A::A") == ["ns::A::A(int)"]
    assert names(path, "ns::A::~A") == ["ns::A::~A()"], "and not the destructor that deletes, which calls it"
    assert len(names(path, "ns::hidden")) == 1
    assert len(names(path, "ns::A::*")) == 6
    assert "nearest names: ns::f, " in refused(path, "ns::ff")


def test_spellings() -> None:
    assert spellings("main") == ("main",)
    assert spellings("sort.isra.0") == ("sort", "sort.isra.0")
    assert spellings("sort.part.0") == ("sort.part.0",), "a part of a function is not an entry of it"
    assert spellings("sort.cold") == ("sort.cold",)
    assert spellings("_ZN2ns1fEi.part.0") == ("_ZN2ns1fEi.part.0",)
    assert "ns::f" in spellings("_ZN2ns1fEi.constprop.0")
    assert "shop::Cart::add" in spellings("_ZN4shop4Cart3add17h0123456789abcdefE")
    assert "std::basic_string::append" in spellings("_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE6appendEPKc")
    assert spellings("_ZNotMangled") == ("_ZNotMangled",)


# Symbols that stand elsewhere, or nowhere.


def test_a_stripped_binary_tells_what_it_exports(build: Compile) -> None:
    path = build(C, "-rdynamic", "-s")
    assert names(path, "loud") == ["loud"]
    message = refused(path, "quite")
    assert "stripped, so only exported functions are known" in message
    assert "no function `printf`; the binary imports the function from a library: name the library" in refused(
        path, "printf"
    )


@pytest.mark.parametrize("way", ["link", "folder", "build-id", "packed", "packed and wrong"])
def test_symbols_in_a_file_of_their_own(
    build: Compile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    path = build(C, "-g", "-Wl,--build-id")
    expected = read_binary(path).find_functions("quiet")
    debug = tmp_path / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(path), str(debug)], check=True)
    if way.startswith("packed"):
        (tmp_path / "packed").write_bytes(lzma.compress(debug.read_bytes()) if way == "packed" else b"junk")
        subprocess.run(["objcopy", f"--add-section=.gnu_debugdata={tmp_path}/packed", str(path)], check=True)
    elif way != "build-id":
        subprocess.run(["objcopy", f"--add-gnu-debuglink={debug}", str(path)], check=True)
    subprocess.run(["strip", str(path)], check=True)
    if way == "folder":
        (tmp_path / ".debug").mkdir()
        debug.rename(tmp_path / ".debug" / debug.name)
    if way == "build-id":
        notes = subprocess.run(["readelf", "-n", str(path)], capture_output=True, text=True, check=True).stdout
        number = re.search(r"Build ID: (\w+)", notes)[1]  # type: ignore[index]
        place = tmp_path / "root" / ".build-id" / number[:2] / f"{number[2:]}.debug"
        place.parent.mkdir(parents=True)
        debug.rename(place)
        monkeypatch.setattr(elf, "DEBUG_FOLDER", tmp_path / "root")
    if way == "packed and wrong":
        with pytest.raises(SpecError, match="this ELF file is damaged"):
            read_binary(path)
        return
    found = read_binary(path).find_functions("quiet")
    assert found == expected


def test_a_debug_file_of_another_build_is_left_alone(build: Compile, tmp_path: Path) -> None:
    path = build(C, "-g")
    debug = tmp_path / "program.debug"
    subprocess.run(["objcopy", "--only-keep-debug", str(path), str(debug)], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug}", str(path)], check=True)
    debug.write_bytes(debug.read_bytes() + b"\0")
    assert not read_binary(path).has_symbols


def test_what_is_no_binary(build: Compile, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env python3\nprint()\n")
    with pytest.raises(SpecError, match="this is a script for /usr/bin/env python3, not a binary"):
        read_binary(script)
    (tmp_path / "text").write_text("text")
    with pytest.raises(SpecError, match="not an ELF binary"):
        read_binary(tmp_path / "text")
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(SpecError, match="cannot read the binary"):
            read_binary(path)
    whole = build(C).read_bytes()
    chance = random.Random(3)
    damaged = tmp_path / "damaged"
    for _ in range(60):
        content = bytearray(whole[: chance.choice([len(whole), chance.randrange(64, len(whole))])])
        for _ in range(chance.randrange(40)):
            content[chance.randrange(16, len(content))] = chance.randrange(256)
        damaged.write_bytes(content)
        try:
            read_binary(damaged)
        except SpecError as error:
            assert str(damaged) in str(error)


# Libraries.


@pytest.fixture
def with_library(build: Compile, tmp_path: Path) -> Callable[..., Path]:
    """Return a function that builds a program that asks for libhelp.so.1 in the folder `lib`.

    It asks for libdeep.so there.
    """
    (tmp_path / "lib").mkdir()
    build("int deep(int x) { return x; }", "-shared", "-fPIC", name="lib/libdeep.so")
    deep = ["-Llib", f"-L{tmp_path}/lib", "-ldeep", "-Wl,-rpath,$ORIGIN"]
    text = "int deep(int); int help(int x) { return deep(x); }"
    build(text, "-shared", "-fPIC", "-Wl,-soname,libhelp.so.1", *deep, name="lib/libhelp.so.1.2")
    (tmp_path / "lib" / "libhelp.so.1").symlink_to("libhelp.so.1.2")

    def make(*flags: str) -> Path:
        library = str(tmp_path / "lib" / "libhelp.so.1.2")
        return build(
            "int help(int); int main(void) { return help(0); }",
            library,
            f"-Wl,-rpath-link,{tmp_path}/lib",
            *flags,
            name="user",
        )

    return make


def test_libraries_are_those_that_the_program_loads(with_library: Callable[..., Path], tmp_path: Path) -> None:
    program = with_library("-Wl,-rpath,$ORIGIN/lib")
    libraries = needed_libraries(program)
    assert set(libraries) == {"libhelp.so.1", "libdeep.so", "libc.so.6", Path(read_binary(program).interpreter).name}
    assert libraries["libhelp.so.1"].samefile(tmp_path / "lib" / "libhelp.so.1.2")
    for name in (
        "libhelp.so.1",
        "libhelp.so.1.2",
        str(tmp_path / "lib" / "libhelp.so.1"),
        "lib/libhelp.so.1",
        "./lib/libhelp.so.1",
    ):
        assert find_binary(name, program=program).samefile(tmp_path / "lib" / "libhelp.so.1.2")
    assert find_binary("user", program=program) == program
    assert "libdeep.so" in needed_libraries(tmp_path / "lib" / "libhelp.so.1.2")
    with pytest.raises(
        SpecError, match=r"libhelp.so: this is neither the program user, .*; nearest names: libhelp.so.1"
    ):
        find_binary("libhelp.so", program=program)


def test_the_library_path_of_the_programs_environment(with_library: Callable[..., Path], tmp_path: Path) -> None:
    program = with_library()
    with pytest.raises(SpecError, match=r"user: the dynamic linker cannot find libhelp.so.1, .*LD_LIBRARY_PATH"):
        needed_libraries(program)
    assert needed_libraries(program, [tmp_path / "lib"])["libhelp.so.1"].samefile(tmp_path / "lib" / "libhelp.so.1.2")
    with pytest.raises(SpecError, match=r"libraries are not known: .* cannot find libhelp.so.1"):
        find_binary("libhelp.so.1", program=program)


def test_other_programs_and_a_static_one(build: Compile, tmp_path: Path) -> None:
    static = build("int main(void) { return 0; }", "-static", name="static")
    assert needed_libraries(static) == {}
    other = tmp_path / "bin"
    other.mkdir()
    shutil.copy(static, other / "tool")
    assert find_binary("tool", program=static, search_path=[tmp_path / "nowhere", other]) == other / "tool"
    with pytest.raises(SpecError, match="tool: this is neither the program static"):
        find_binary("tool", program=static, search_path=[tmp_path / "nowhere"])


# Static probes.

PROBED = """
#ifdef SEMAPHORE
#define _SDT_HAS_SEMAPHORES 1
__extension__ unsigned short shop_sold_semaphore __attribute__((section(".probes"), used));
__extension__ unsigned short shop_lost_semaphore __attribute__((section(".probes"), used));
#endif
#include <sys/sdt.h>
int main(int n, char **v) {
    (void)v;
    if (n > 1) DTRACE_PROBE1(shop, sold, n); else DTRACE_PROBE2(shop, sold, n, v);
    DTRACE_PROBE(shop, lost);
    return 0; }
"""


@pytest.mark.parametrize(
    "flags", [[], ["-DSEMAPHORE"], ["-DSEMAPHORE", "-no-pie"], ["-DSEMAPHORE", "-Wl,-z,noseparate-code"]]
)
def test_static_probes_are_nops_at_their_places(build: Compile, flags: list[str]) -> None:
    if subprocess.run(
        ["gcc", "-E", "-include", "sys/sdt.h", "-xc", "/dev/null"], capture_output=True, check=False
    ).returncode:
        pytest.skip("no <sys/sdt.h> here (on Debian: apt-get install systemtap-sdt-dev)")
    binary = read_binary(build(PROBED, *flags))
    sold = binary.find_static_probes("shop", "sold")
    assert len(sold) == 2
    assert len(binary.find_static_probes("sh*", "*")) == 3
    for probe in binary.find_static_probes("shop", "*"):
        assert binary.code(probe.offset)[0] == 0x90
    lost = binary.find_static_probes("shop", "lost")[0].semaphore
    symbols = dict(
        re.findall(
            r"(\w+) \w shop_(\w+)_semaphore",
            subprocess.run(["nm", str(binary.path)], capture_output=True, text=True, check=True).stdout,
        )
    )
    assert bool(symbols) == bool(flags)
    places = {name: int(address, 16) for address, name in symbols.items()}
    assert {probe.semaphore - lost for probe in sold} == {places["sold"] - places["lost"] if flags else 0}
    assert (binary.code(lost, 2) == b"\0\0") == bool(flags)
    with pytest.raises(SpecError, match=r"no static probe shop:solt; nearest names: shop:sold"):
        binary.find_static_probes("shop", "solt")


def test_notes_of_sections_that_were_moved_after_linking(build: Compile, tmp_path: Path) -> None:
    path = build(PROBED)
    expected = read_binary(path).static_probes
    notes = tmp_path / "notes"
    subprocess.run(["objcopy", f"--dump-section=.note.stapsdt={notes}", str(path)], check=True)
    content = bytearray(notes.read_bytes())
    place = 0
    while place < len(content):  # as if all had been linked 0x1000 lower
        name_bytes, note_bytes = (
            int.from_bytes(content[place + 4 * i : place + 4 * i + 4], "little") for i in range(2)
        )
        begin = place + 12 + (name_bytes + 3 & ~3)
        for at in (begin, begin + 8):
            content[at : at + 8] = (int.from_bytes(content[at : at + 8], "little") - 0x1000).to_bytes(8, "little")
        place = begin + (note_bytes + 3 & ~3)
    notes.write_bytes(content)
    subprocess.run(["objcopy", f"--update-section=.note.stapsdt={notes}", str(path)], check=True)
    assert read_binary(path).static_probes == expected


def test_a_binary_without_static_probes(build: Compile) -> None:
    with pytest.raises(SpecError, match="the binary has no static probes"):
        read_binary(build(C)).find_static_probes("libc", "*")


# Metrics.


def probe(**what: str) -> Event:
    return parse_event({"probe": what})


def test_the_sites_of_metrics_among_others(build: Compile) -> None:
    program = build(C, name="shop")
    software = {
        "quiet": probe(uprobe="shop:quiet"),
        "both": probe(uprobe=f"{program}:[lq]*[td]"),
        "allocated": probe(uprobe="libc.so.6:malloc"),
    }
    sites = [
        site
        for number, (name, event) in enumerate(software.items())
        for site in find_probes(name, event, number=number, program=program)
    ]
    assert [site.number for site in sites] == [0, 1, 1, 2]
    assert {(site.metric, site.symbol) for site in sites} == {
        ("quiet", "quiet"),
        ("both", "quiet"),
        ("both", "loud"),
        ("allocated", "malloc"),
    }
    assert sites[0].path == program.resolve()
    assert sites[0].name == "shop:quiet"
    assert sites[0].text == f"function quiet at {sites[0].offset:#x}"


def test_static_probes_of_the_systems_runtime(build: Compile) -> None:
    program = build(CXX, name="cxx", language="cc")
    (site,) = find_probes("thrown", probe(usdt="libstdc++.so.6:libstdcxx:throw"), program=program)
    assert (site.kind, site.symbol, site.hit, site.semaphore) == ("usdt", "libstdcxx:throw", "cheap", 0)
    assert "static probe libstdcxx:throw at 0x" in site.text


def test_faults_name_the_metric_and_the_way_out(build: Compile, tmp_path: Path) -> None:
    program = build(C, name="shop")

    def fault(**what: str) -> str:
        with pytest.raises(SpecError) as caught:
            find_probes("hits", probe(**what), program=program, search_path=[tmp_path / "bin"])
        return str(caught.value)

    assert fault(uprobe="shop:quite").startswith("software metric 'hits': ")
    assert "nearest names: quiet" in fault(uprobe="shop:quite")
    assert "inlined it into all callers" in fault(uprobe="shop:quite")
    assert "name the library, as in `LIBRARY:printf` (`libc.so.6:printf`)" in fault(uprobe="shop:printf")
    assert "neither the program shop" in fault(uprobe="sohp:quiet")
    assert "cannot read the binary" in fault(uprobe="./missing:quiet")


def test_the_class_of_a_hit_is_that_of_the_first_instruction() -> None:
    """Against the disassembler, on every function of a library of the system."""
    library = system_library("libz.so.1").resolve()
    listed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "-j.text", str(library)], capture_output=True, text=True, check=True
    ).stdout
    binary = read_binary(library)
    if binary.machine != "EM_X86_64":
        pytest.skip("the classes are known for x86-64 alone")
    mnemonics = dict(re.findall(r"^\s+([0-9a-f]+):\s+(\S+(?: +%\w+)?)", listed, re.MULTILINE))
    expected = {"cheap": 0, "dear": 0}
    for function in binary.functions:
        (site,) = (
            site
            for site in find_probes("n", probe(uprobe=f"{library}:{function.name}"), program=library)
            if site.offset == function.offset
        )
        mnemonic = mnemonics.get(f"{function.offset:x}")  # this library is mapped as it lies in the file
        if mnemonic is None or mnemonic.startswith("nop"):
            continue
        word = mnemonic.split()[0]
        cheap = (
            (word == "push" and "%" in mnemonic)
            or word in ("call", "jmp")
            or (word.startswith("j") and word != "jrcxz")
        )
        assert site.hit == ("cheap" if cheap else "dear"), (function.name, mnemonic)
        expected[site.hit] += 1
    assert min(expected.values()) > 5
    assert set(HIT_COSTS) == set(HIT_NS) == {"cheap", "dear", "unknown"}
    assert isinstance(site, ProbeSite)
