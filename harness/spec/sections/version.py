"""`schema_version`: which version of the spec's format a file is written in."""

from __future__ import annotations

from typing import Literal, TypeAlias

from unperturbed.harness.spec.model import SpecKey

SchemaVersion: TypeAlias = Literal[1]
CURRENT: SchemaVersion = 1

VERSION = SpecKey(
    "schema_version",
    SchemaVersion,
    "Version of the spec's format. It rises only if a reader of the old format would fail or misread "
    "(docs/reference/stability.md).",
    default=lambda: CURRENT,
    examples=(CURRENT,),
    sample=f"schema_version: {CURRENT}\n",
)
