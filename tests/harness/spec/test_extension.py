"""A key of the spec is one module: another distribution adds one, and a field's words are in its section alone."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field, create_model

from tests.harness.spec.examples import SMALL_EXAMPLE
from tests.harness.spec.json_schema_check import accepts
from unperturbed.errors import HostError
from unperturbed.harness.spec import validation
from unperturbed.harness.spec.campaign_spec import CampaignSpec, spec_keys, spec_model
from unperturbed.harness.spec.docs import spec_markdown
from unperturbed.harness.spec.load import changed_settings, load_spec, parse_spec
from unperturbed.harness.spec.model import Because
from unperturbed.harness.spec.sections.measure import Measure
from unperturbed.harness.spec.validation import json_schema, mappings
from unperturbed.harness.spec.yaml import InvalidSpec

ROOT = Path(__file__).parents[3]

TOY = """
from typing import Annotated

from pydantic import Field

from unperturbed.harness.spec import Because, Draft, Section, SpecKey
from unperturbed.harness.spec.model import MAY_CHANGE


class Power(Section):
    "Limits of the power that the processor takes."

    watts: Annotated[int, Because("the supply gives no more")] = Field(le=400, description="Most watts. Always.")
    domain: Annotated[str, MAY_CHANGE] = Field(
        default="package", description="What is limited.", examples=["package", "core"]
    )


def check(draft: Draft) -> None:
    if draft.has("power") and draft.value("measure", "sampler") == "outside":
        draft.report_key(("power",), "power is limited from inside")


POWER = SpecKey(
    "power", Power, "Power limits. They hold for every run.", check,
    sample="power: {watts: 90}\\n", notes="- `power` needs the inside sampler.\\n",
)
"""


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the folder of a distribution that adds the key `power`."""
    folder = tmp_path / "site"
    (folder / "power-1.0.dist-info").mkdir(parents=True)
    (folder / "power-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: power\nVersion: 1.0\n")
    (folder / "power-1.0.dist-info/entry_points.txt").write_text("[unperturbed.spec_keys]\npower = power_key:POWER\n")
    (folder / "power_key.py").write_text(TOY)
    monkeypatch.syspath_prepend(str(folder))
    _forget()
    yield folder
    sys.modules.pop("power_key", None)
    _forget()


def _forget() -> None:
    spec_keys.cache_clear()
    spec_model.cache_clear()


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Return the file of a good spec."""
    (tmp_path / "blocksort").mkdir()
    path = tmp_path / "small.yaml"
    path.write_text(SMALL_EXAMPLE)
    return path


def _faults(text: str, folder: Path) -> list[str]:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(text, "f", folder)
    return str(caught.value).splitlines()


def test_a_key_of_another_distribution_has_its_value_in_the_spec(distribution: Path, spec: Path) -> None:
    without = load_spec(spec)
    assert without.extensions == {}
    spec.write_text(f"{SMALL_EXAMPLE}power:\n  watts: 90\n")
    parsed = load_spec(spec)
    assert isinstance(parsed, CampaignSpec)
    power = parsed.extensions["power"]
    assert (power.watts, power.domain) == (90, "package")
    assert parsed.at_point({}).extensions == parsed.extensions
    spec.write_text(f"{SMALL_EXAMPLE}power:\n  watts: 80\n")
    assert len({without.digest, parsed.digest, load_spec(spec).digest}) == 3


def test_a_change_of_what_may_change_is_named_and_leaves_the_digest(distribution: Path, spec: Path) -> None:
    texts = [f"{SMALL_EXAMPLE}power:\n  watts: 90\n  domain: {domain}\n" for domain in ("core", "package")]
    one, other = (parse_spec(text, "f", spec.parent) for text in texts)
    assert one.digest == other.digest
    assert changed_settings(one, texts[1]) == ("power.domain",)


def test_a_whole_key_may_change_too(distribution: Path, spec: Path) -> None:
    text = "from unperturbed.harness.spec.text import Text\n"
    text += 'POWER = SpecKey("power", Annotated[Text, MAY_CHANGE], "Note on power.")\n'
    (distribution / "power_key.py").write_text(f"{TOY}\n\n{text}")
    _forget()
    texts = [f"{SMALL_EXAMPLE}{note}" for note in ("", "power: much\n", "power: little\n")]
    specs = [parse_spec(text, "f", spec.parent) for text in texts]
    assert [spec.extensions.get("power") for spec in specs] == [None, "much", "little"]
    assert len({spec.digest for spec in specs}) == 1
    assert changed_settings(specs[1], texts[2]) == ("power",)
    assert "- `power`;\n" in spec_markdown()


def test_specs_without_the_key_have_the_digest_that_they_have_elsewhere(distribution: Path, spec: Path) -> None:
    digest = load_spec(spec).digest
    (distribution / "power-1.0.dist-info/entry_points.txt").write_text("")
    _forget()
    assert load_spec(spec).digest == digest


def test_faults_of_the_key_have_line_column_and_advice(distribution: Path, spec: Path) -> None:
    line = SMALL_EXAMPLE.count("\n") + 1
    text = f"{SMALL_EXAMPLE}power:\n  watts: 900\n  domian: core\n"
    assert _faults(text, spec.parent) == [
        f"f:{line + 1}:10: `watts` is 900, but must be at most 400: the supply gives no more",
        f"f:{line + 2}:3: unknown key `domian`; did you mean `domain`?",
    ]
    assert _faults(f"{SMALL_EXAMPLE}power: {{}}\n", spec.parent) == [
        f"f:{line}:1: `watts` is missing from `power` (most watts)"
    ]
    assert _faults(f"{SMALL_EXAMPLE}power: 90\n", spec.parent) == [
        f"f:{line}:8: expected a mapping, not the number 90; valid keys: watts, domain"
    ]
    assert _faults(f"{SMALL_EXAMPLE}powr: {{watts: 90}}\n", spec.parent) == [
        f"f:{line}:1: unknown key `powr`; did you mean `power`?"
    ]
    assert _faults(f"{SMALL_EXAMPLE}watts: 90\n", spec.parent) == [f"f:{line}:1: `watts` belongs under `power:`"]
    outside = SMALL_EXAMPLE.replace("measure:\n", "measure:\n  sampler: outside\n")
    assert _faults(f"{outside}power: {{watts: 90}}\n", spec.parent) == [f"f:{line + 1}:1: power is limited from inside"]


def test_schema_and_reference_have_the_key(distribution: Path) -> None:
    whole = json_schema()
    assert whole["properties"]["power"]["description"] == "Power limits. They hold for every run."
    assert whole["$defs"]["Power"]["properties"]["watts"]["maximum"] == 400
    good = {"name": "x", "program": {"run": "sh"}, "measure": {"interval": "1 s"}}
    assert accepts(whole, good | {"power": {"watts": 90}})
    assert not accepts(whole, good | {"power": {"watts": 900}})
    assert ("power",) in dict(mappings())
    text = spec_markdown()
    assert "## `power`\n\nLimits of the power that the processor takes.\n" in text
    assert "| `watts` | whole number ≤ 400 | **required** | Most watts. Always. Why these bounds: the supply" in text
    assert "power: {watts: 90}\n```" in text
    assert "- `power` needs the inside sampler.\n" in text
    assert "- under `power`: `domain`;\n" in text


def test_the_command_prints_the_schema_with_the_key(distribution: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{distribution}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-m", "unperturbed.harness.cli", "schema"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    assert "power" in json.loads(printed)["properties"]


def test_a_key_whose_model_is_lax_or_whose_name_is_taken_is_refused(distribution: Path, spec: Path) -> None:
    (distribution / "power_key.py").write_text(
        TOY.replace("class Power(Section)", "class Power(BaseModel)").replace(
            "from pydantic import Field", "from pydantic import BaseModel, Field"
        )
    )
    with pytest.raises(
        HostError, match=r"power_key:POWER of power .* TypeError: the model of spec key power must derive"
    ):
        load_spec(spec)
    (distribution / "power_key.py").write_text(TOY.replace('"power", Power', '"measure", Power'))
    sys.modules.pop("power_key", None)
    with pytest.raises(HostError, match=r"two installed Python packages define the spec key `measure`"):
        load_spec(spec)


def test_a_new_field_of_a_section_is_its_field_alone(monkeypatch: pytest.MonkeyPatch, spec: Path) -> None:
    warm_up = Annotated[int, Because("the cache is warm by then")]
    field = Field(default=0, le=9, description="Runs before the first.", examples=[3])
    section = create_model("Measure", __base__=Measure, __doc__=Measure.__doc__, warm_up=(warm_up, field))
    model = create_model("CampaignSpec", __base__=CampaignSpec, measure=(section, CampaignSpec.model_fields["measure"]))
    monkeypatch.setattr(validation, "spec_model", lambda: model)
    spec.write_text(SMALL_EXAMPLE.replace("measure:\n", "measure:\n  warm_up: 3\n"))
    assert load_spec(spec).measure.warm_up == 3
    line = spec.read_text().splitlines().index("  warm_up: 3") + 1
    assert _faults(spec.read_text().replace("warm_up: 3", "warm_up: 10"), spec.parent) == [
        f"f:{line}:12: `warm_up` is 10, but must be at most 9: the cache is warm by then"
    ]
    assert _faults(spec.read_text().replace("warm_up:", "warmup:"), spec.parent) == [
        f"f:{line}:3: unknown key `warmup`; did you mean `warm_up`?"
    ]
    assert json_schema()["$defs"]["Measure"]["properties"]["warm_up"]["maximum"] == 9
    assert "| `warm_up` | whole number ≤ 9 | `0` | Runs before the first. Why these bounds" in spec_markdown()


def test_no_field_is_named_where_messages_schema_reference_and_digest_are_made() -> None:
    fields = {key for path, one in mappings() if path for key in one["properties"]}
    fields -= {
        "python",
        "in",
        "file",
        "line",
        "call",
        "return",
        "label",
        "name",
        "size",
        "duration",
    }  # words of Python, of paths and of types too
    for module in ("validation", "yaml", "model", "docs"):
        tree = ast.parse((ROOT / f"harness/spec/{module}.py").read_text())
        texts = {
            node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        }
        assert not fields & texts, module
    canonical = (ROOT / "harness/spec/load.py").read_text().partition("def _canonical")[2]
    assert not [name for name in fields if f'"{name}"' in canonical]
