"""The processors that are emulated: one record each, with everything in which their machines differ."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["AMD64", "ARM64", "NEWEST_ARM64", "RISCV64", "Architecture"]


@dataclass(frozen=True)
class Architecture:
    """A kind of processor, as the emulator, the compiler and Debian name it.

    Attributes
    ----------
    name : str
        Debian's name.
    triplet : str
        GNU's name of its Linux; the folder of its libraries, too.
    emulator, emulator_package : str
        The program of QEMU, and Debian's package of it.
    machine : tuple of str
        The emulator's arguments for the board and what it needs to start, without the processor.
    processor : str
        The emulator's name of the processor that is emulated unless a test asks for another.
    without_pmu : str
        What is added to the processor's name so that it has no PMU; empty where it cannot be chosen.
    console, archive : str
        The guest's device for the kernel's messages, and the one through which files come back.
    linker : str
        Where programs look for the dynamic linker in the guest.
    compiler : str
        C compiler for it.
    compiler_packages : str
        Debian's packages of the compiler and the C library's headers.
    kernel_package : str
        Debian's package that depends on the newest kernel.
    suite : str
        The Debian release that its packages are taken from; empty for the host's own.
    has_papi : bool
        Whether Debian has PAPI and libpfm for it.
    clock_shift : int
        An instruction takes two to this power nanoseconds of the guest's time.
    """

    name: str
    triplet: str
    emulator: str
    emulator_package: str
    machine: tuple[str, ...]
    processor: str
    without_pmu: str
    console: str
    archive: str
    linker: str
    compiler: str
    compiler_packages: str
    kernel_package: str
    suite: str = ""
    has_papi: bool = True
    clock_shift: int = 1

    @property
    def library(self) -> re.Pattern[str]:
        """Matches the path of a shared library in a package."""
        return re.compile(rf"\./(usr/)?lib(64)?/({self.triplet}/)?[^/]+\.so(\.[^/]*)?")

    @property
    def libraries(self) -> str:
        """The guest's folder of shared libraries."""
        return f"/lib/{self.triplet}"


ARM64 = Architecture(
    name="arm64",
    triplet="aarch64-linux-gnu",
    emulator="qemu-system-aarch64",
    emulator_package="qemu-system-arm",
    machine=("-M", "virt"),
    processor="cortex-a57",
    without_pmu=",pmu=off",
    console="ttyAMA0",
    archive="ttyS0",
    linker="/lib/ld-linux-aarch64.so.1",
    compiler="aarch64-linux-gnu-gcc",
    compiler_packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    kernel_package="linux-image-cloud-arm64",
)

NEWEST_ARM64 = "max,pauth-impdef=on"
"""The processor with all that the emulator knows; pointers are signed by the algorithm that costs it least."""

RISCV64 = Architecture(
    name="riscv64",
    triplet="riscv64-linux-gnu",
    emulator="qemu-system-riscv64",
    emulator_package="qemu-system-misc opensbi",
    machine=("-M", "virt"),
    processor="rv64,sscofpmf=true",
    without_pmu="",  # cycles and instructions are always there
    console="ttyS0",
    archive="ttyS1",
    linker="/lib/ld-linux-riscv64-lp64d.so.1",
    compiler="riscv64-linux-gnu-gcc",
    compiler_packages="gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
    kernel_package="linux-image-riscv64",
    suite="trixie",  # the first release that has it
    has_papi=False,
    clock_shift=0,  # the emulated counter of instructions counts the clock's nanoseconds
)

AMD64 = Architecture(
    name="amd64",
    triplet="x86_64-linux-gnu",
    emulator="qemu-system-x86_64",
    emulator_package="qemu-system-x86",
    machine=("-M", "q35"),
    processor="max",
    without_pmu="",  # it has none
    console="ttyS0",
    archive="ttyS1",
    linker="/lib64/ld-linux-x86-64.so.2",
    compiler="x86_64-linux-gnu-gcc",
    compiler_packages="gcc libc6-dev",
    kernel_package="linux-image-cloud-amd64",
)
