"""`programs`: other builds, inputs or set-ups of the program, each measured as it is and compared with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from unperturbed.harness.spec.draft import Draft
from unperturbed.harness.spec.model import ADDED_LATER, Frozen, Section, SpecKey, empty
from unperturbed.harness.spec.sections.campaign import RESERVED, SHAM_PREFIX
from unperturbed.harness.spec.sections.program import Compilers, Program, check_placeholders, check_words
from unperturbed.harness.spec.values.placeholders import find_placeholders
from unperturbed.harness.spec.values.text import FileName, PackageName, Text, VariableName


class OtherProgram(Section):
    """How this program differs from `program`. Keys that are not given are the same."""

    source: Text | None = Field(default=None, description="Folder of its source.", examples=["sorter-2.0"])
    debian: PackageName | None = Field(default=None, description="Debian source package to build.")
    build: Text | None = Field(
        default=None, description="Command that builds it.", examples=["make CC={cc} CFLAGS='-O2 -fno-plt'"]
    )
    compilers: Compilers | None = Field(default=None, description="The compilers that its build calls.")
    run: Text | None = Field(
        default=None,
        description="Command that runs it: with other arguments, or started by another tool.",
        examples=["perf record -o perf.data {build}/sorter"],
    )
    sampled: Text | None = Field(
        default=None,
        description="Name of the program to sample, if `run` starts it by another one and nothing is built.",
        examples=["sorter"],
    )
    shell: bool | None = Field(default=None, description="Have `/bin/sh` run its `build` and `run`.")
    stdin: Text | None = Field(default=None, description="File that it reads as its standard input.")
    environment: Annotated[Mapping[VariableName, str], Frozen] = Field(
        default_factory=empty,
        description="Environment variables in addition to those of `program`, or with another value.",
        examples=[{"MALLOC_ARENA_MAX": "1"}],
        json_schema_extra={"default": {}},
    )
    working_folder: Text | None = Field(default=None, description="Folder in which it runs.")
    exit_code: int | None = Field(default=None, ge=0, le=255, description="Exit code of a correct run.")
    result: Literal["same", "any"] | None = Field(
        default=None,
        description="`same`: all its runs must give the result of its own first, unmeasured run. `any`: only the "
        "exit code must be correct.",
    )

    def difference(self) -> str:
        """Return what is otherwise in it, key by key, in the order of this section."""
        parts = []
        for key in sorted(self.model_fields_set, key=list(type(self).model_fields).index):
            value = getattr(self, key)
            shown = ", ".join(f"{name}={one}" for name, one in value.items()) if isinstance(value, Mapping) else value
            parts.append(f"{key}: {shown}")
        return "; ".join(parts)

    def of(self, program: Program) -> Program:
        """Return the whole program: that of `program:` with these changes."""
        given: dict[str, Any] = {
            name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None
        }
        given["environment"] = {**program.environment, **self.environment}
        given["output_digest"] = None
        if "source" in given or "debian" in given:
            given = {"source": None, "debian": None, **given}
        return program.model_copy(update=given)


Programs = Annotated[Mapping[FileName, OtherProgram], Frozen, ADDED_LATER]


def _check(draft: Draft) -> None:
    programs = draft.keys("programs")
    if programs and draft.has("parameters"):
        draft.report_key(
            ("programs",), "`programs` has no meaning in a sweep (`parameters:`): a sweep gives no verdict"
        )
    for name, path in programs.items():
        if name in RESERVED or name in draft.keys("campaign", "subsets"):
            draft.report_key(path, f"`{name}` is the name of another configuration: choose another")
        elif name.startswith(SHAM_PREFIX):
            draft.report_key(path, f"`{name}`: names that begin with `{SHAM_PREFIX}` belong to shams: choose another")
        if draft.value(*path) == {}:
            draft.report_key(path, f"`{name}` is the same as `program`: give what is otherwise in it, or remove it")
        for field in ("build", "run", "stdin", "working_folder"):
            text = draft.text(*path, field)
            if text is not None and not draft.recorded:
                check_placeholders(draft, (*path, field), field, text)
        if draft.recorded:
            continue
        for field in ("build", "run"):
            check_words(draft, (*path, field))
        build = draft.text(*path, "build")
        if build is not None and not {"cc", "cxx"} & set(find_placeholders(build)) and draft.has("program", "build"):
            draft.report(
                (*path, "build"),
                "programs are compared alike, so this build needs the sampler's compiler too: write `{cc}` or `{cxx}` "
                "where it names its compiler",
            )
        if (build is None) != (not draft.has("program", "build")) and build is not None:
            draft.report_key(
                (*path, "build"), "`program:` is not built, and both are to be measured alike: build both, or neither"
            )


PROGRAMS = SpecKey(
    "programs",
    Programs,
    "Other builds, inputs or set-ups of the program. Each is a configuration without software metrics, which is run as "
    "often as the baseline and compared with it.",
    _check,
    default=empty,
    examples=({"clang": {"compilers": {"cc": "clang"}}},),
    sample="""\
programs:
  clang: {compilers: {cc: clang}}
  one_arena: {environment: {MALLOC_ARENA_MAX: "1"}}
""",
    notes="""\
- All programs under `programs` share `prepare` and `inputs` of `program`. Each must give the result of its own
  unmeasured run, which may differ from that of `program`.
""",
)
