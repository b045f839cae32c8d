"""What is put into a room, or offered by another distribution, is found without a list."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from unperturbed.common.extensions import classes_in, records_in
from unperturbed.errors import HostError


@dataclass(frozen=True)
class Toy:
    name: str


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in a temporary folder, and a distribution beside it."""
    folder = tmp_path / "toys"
    folder.mkdir()
    (folder / "__init__.py").write_text("class Base:\n    name = ''\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] in ("toys", "others")]:
        del sys.modules[name]


def _offer(folder: Path, group: str, text: str) -> None:
    information = folder / "others-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text(f"[{group}]\n{text}\n")


def test_records_of_a_room_and_of_others(room: Path) -> None:
    (room / "ball.py").write_text(f"from {Toy.__module__} import Toy\nBALL = Toy('ball')\n")
    sys.modules.setdefault(Toy.__module__, sys.modules[__name__])
    (room / "_hidden.py").write_text("raise AssertionError")
    (room.parent / "others.py").write_text(f"from {Toy.__module__} import Toy\nKITE = Toy('kite')\n")
    _offer(room.parent, "unperturbed.toys", "kite = others:KITE")
    assert list(records_in("toys", Toy, group="unperturbed.toys")) == ["ball", "kite"]


def test_classes_leave_the_base_and_imported_ones_out(room: Path) -> None:
    import toys

    (room / "ball.py").write_text(
        "from toys import Base\nclass Ball(Base):\n    name = 'ball'\nclass _Part(Base): pass\n"
    )
    (room / "game.py").write_text("from toys.ball import Ball\n")
    assert {name: one.__name__ for name, one in classes_in("toys", toys.Base, group="unperturbed.toys").items()} == {
        "ball": "Ball"
    }


def test_what_cannot_be_loaded_names_its_distribution(room: Path) -> None:
    _offer(room.parent, "unperturbed.toys", "kite = others:KITE")
    with pytest.raises(HostError, match=r"others:KITE of others .*: ModuleNotFoundError"):
        records_in("toys", Toy, group="unperturbed.toys")


def test_another_kind_and_a_name_that_is_taken_are_refused(room: Path) -> None:
    (room.parent / "others.py").write_text("KITE = 3\n")
    _offer(room.parent, "unperturbed.toys", "kite = others:KITE")
    with pytest.raises(HostError, match="has type int, not Toy; fix or uninstall the extension"):
        records_in("toys", Toy, group="unperturbed.toys")
    (room.parent / "others.py").write_text(f"from {Toy.__module__} import Toy\nKITE = Toy('ball')\n")
    sys.modules.pop("others")
    (room / "ball.py").write_text(f"from {Toy.__module__} import Toy\nBALL = Toy('ball')\n")
    with pytest.raises(HostError, match="two extensions of toys are named ball; rename one of them, or uninstall"):
        records_in("toys", Toy, group="unperturbed.toys")
