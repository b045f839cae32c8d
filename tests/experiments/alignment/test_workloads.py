"""The workloads of the alignment experiment do what they claim, and their milestones are counted where they happen."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from unperturbed.harness.program.build import build_configuration
from unperturbed.harness.spec.load import load_spec

FOLDER = Path(__file__).parents[3] / "experiments" / "alignment"
WORLD = {"clips": ("fired", "comparisons"), "tachyon": ("spheres", "polygons"), "tachyon_long": ("spheres", "polygons")}
"""Programs of the world, and the milestones that judge."""
GOOD, USAGE, WRONG = 0, 2, 3
SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all -static-libasan -static-libubsan"
MILESTONES = {"records": ("deleted", "swaps"), "raytracer": ("spheres", "polygons"), "rules": ("fired", "comparisons")}


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each program, built with the sanitizers in a copy of its source."""
    built = {}
    for name in MILESTONES:
        folder = tmp_path_factory.mktemp(name)
        for source in [*(FOLDER / name).glob("*.[ch]"), FOLDER / name / "Makefile"]:
            (folder / source.name).write_bytes(source.read_bytes())
        command = ["make", "-j2", "CC=gcc", f"CFLAGS=-O1 -g -Werror {SANITIZERS}"]
        made = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert (made.returncode, made.stderr) == (0, "")
        built[name] = folder / name
    return built


def run(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([program, *arguments], capture_output=True, check=False, timeout=60)


def output(program: Path, *arguments: str | Path) -> list[str]:
    done = run(program, *arguments)
    assert (done.returncode, done.stderr) == (GOOD, b"")
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("name", MILESTONES)
def test_every_trace_of_the_subsets_holds_both_milestones_and_ipc(name: str) -> None:
    spec = load_spec(FOLDER / f"{name}.yaml")
    assert spec.name == name
    assert tuple(spec.analysis.align_on) == ("IPC",)
    assert len(spec.campaign.subsets) == 2
    for subset in spec.campaign.subsets.values():
        assert {*MILESTONES[name]} <= {spec.analysis.anchor, *subset}


@pytest.mark.parametrize("name", WORLD)
def test_programs_of_the_world_hold_both_milestones_beside_their_anchor(name: str) -> None:
    spec = load_spec(FOLDER / f"{name}.yaml")
    assert spec.name == name
    assert spec.program.debian is not None
    assert spec.program.debian.startswith("upstream:")
    assert spec.analysis.anchor not in (None, *WORLD[name])
    assert len(spec.campaign.subsets) == 2
    assert all({*WORLD[name]} <= {*subset} for subset in spec.campaign.subsets.values())


@pytest.mark.usefixtures("loaded_wrapper")
@pytest.mark.parametrize("name", MILESTONES)
def test_each_metric_has_one_place_in_the_source(name: str, tmp_path: Path) -> None:
    spec = load_spec(FOLDER / f"{name}.yaml")
    built = build_configuration(spec.program, FOLDER / name, tmp_path / "00", spec.measure.software, spec_folder=FOLDER)
    assert built.sites == dict.fromkeys(spec.measure.software, 1)
    assert not built.skipped


# The database


def carry_out(book: str, session: str) -> list[str]:
    """Carry out a session without reports: the program's obvious twin."""
    rows = [line.split(",") for line in book.splitlines()]
    keys = {
        "number": lambda row: int(row[0]),
        "name": lambda row: (row[1], int(row[0])),
        "city": lambda row: (row[2], row[1], int(row[0])),
        "phone": lambda row: (row[3], int(row[0])),
        "balance": lambda row: (int(row[4]), int(row[0])),
    }
    said: list[str] = []
    for line in session.splitlines():
        verb, _, rest = line.partition(" ")
        if verb == "add":
            rows.append(rest.split(","))
        elif verb == "delete":
            rows = [row for row in rows if row[0] != rest]
        elif verb == "sort":
            rows.sort(key=keys[rest])
        elif verb == "find":
            said.append(f"{rest}: {sum(row[1] == rest for row in rows)}")
        elif verb == "write":
            said += [",".join(row) for row in rows]
    return said


def test_records_does_what_a_list_of_rows_would(programs: dict[str, Path], tmp_path: Path) -> None:
    book, session = tmp_path / "book", tmp_path / "session"
    sizes = ["--records", "300", "--rounds", "9", "--deletes", "12", "--finds", "20"]
    subprocess.run([sys.executable, FOLDER / "records" / "make_session.py", *sizes, book, session], check=True)
    commands = session.read_text().splitlines()
    session.write_text("".join(f"{command}\n" + "write\n" * command.startswith("sort") for command in commands))
    said = output(programs["records"], book, session)
    expected = carry_out(book.read_text(), session.read_text())
    assert [line for line in said if not line.startswith(("totals:", "listing:"))] == expected
    assert sum(line.startswith("listing: ") for line in said) == 3


@pytest.mark.parametrize(
    ("session", "message"),
    [
        ("delete 9\n", "1: there is no such record"),
        ("\nsort size\n", "1: not understood"),
        ("sort city\nfind A\n", "2: names are"),
    ],
)
def test_records_says_which_command_is_wrong(
    programs: dict[str, Path], tmp_path: Path, session: str, message: str
) -> None:
    (tmp_path / "book").write_text("1,Ann,Rome,5,-7\n")
    (tmp_path / "session").write_text(session)
    done = run(programs["records"], tmp_path / "book", tmp_path / "session")
    assert done.returncode == WRONG
    assert message in done.stderr.decode()


# The rule engine


def nearest_neighbours(days: str) -> list[str]:
    """Plan each day's round as the rules do: what the engine prints, but the counts of rules that fired."""
    said: list[str] = []
    stops: set[str] = set()
    roads: dict[tuple[str, str], int] = {}
    for line in days.splitlines():
        match line.strip("()").split():
            case ["fact", "order", _, customer, "open"]:
                stops.add(customer)
            case ["fact", "road", start, end, length]:
                roads[start, end] = int(length)
            case ["fact", "phase", "plan"]:
                here, left, legs = "depot", set(stops), []
                while left:
                    length, following = min((roads[here, stop], stop) for stop in left)
                    legs.append((length, f"{len(legs)} {here} {following} {length}"))
                    left.remove(following)
                    here = following
                said.append(f"stops {len(legs)} length {sum(length for length, _ in legs)}")
                said += [leg for _, leg in sorted(legs, reverse=True)]
                stops, roads = set(), {}
    return said


def test_rules_plan_the_rounds_that_a_loop_would(programs: dict[str, Path], tmp_path: Path) -> None:
    days = tmp_path / "days"
    sizes = ["--days", "2", "--customers", "25", "--orders", "400", "--positions", "3"]
    subprocess.run([sys.executable, FOLDER / "rules" / "make_days.py", *sizes, days], check=True)
    said = output(programs["rules"], FOLDER / "rules" / "rounds.rules", days)
    expected = nearest_neighbours(days.read_text())
    assert [line for line in said if not line.endswith("fired")] == expected
    assert sum(line.startswith("stops") for line in expected) == 2


def matches(facts: list[tuple[int, int]]) -> list[str]:
    """Pairs of a rule with a join and a negation, found by looking at all pairs."""
    return [
        f"{a} {b} {c} {d}"
        for a, b in facts
        for c, d in facts
        if c == b and d > a and not any(e == d and f < a for e, f in facts)
    ]


@pytest.mark.parametrize("seed", range(8))
def test_network_finds_what_looking_at_all_pairs_finds(programs: dict[str, Path], tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    facts = [(chance.randrange(6), chance.randrange(6)) for _ in range(14)]
    gone = chance.sample(range(len(facts)), 5)
    rule = "(rule pair 1 (ready) (pair _ ?a ?b) (pair _ ?b ?d) (not (pair _ ?d <?a)) => (print ?a ?b ?b ?d))"
    # The fourth slot of a rule's conditions is taken: d > a is asked of what was printed.
    lines = ["(rule drop 9 (drop ?n) (pair ?n ?a ?b) => (retract 1) (retract 2))", rule]
    lines += [f"(fact pair {number} {a} {b})" for number, (a, b) in enumerate(facts)]
    lines += ["(fact ready)", *(f"(fact drop {number})" for number in gone), "(run)"]
    (tmp_path / "program").write_text("\n".join(lines))
    said = output(programs["rules"], tmp_path / "program")
    kept = [pair for number, pair in enumerate(facts) if number not in gone]
    greater = [line for line in said[:-1] if int(line.split()[3]) > int(line.split()[0])]
    assert sorted(greater) == sorted(matches(kept))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(rule r 0 (a ?x) => (print ?y))", "no earlier condition"),
        ("(rule r 0 (not (a ?x)) => (retract 1))", "no such condition"),
        ("(fact a 1", "not closed"),
        ("\n)", "2: a parenthesis is closed"),
        ("(walk)", "neither fact nor rule nor run"),
    ],
)
def test_rules_say_what_is_wrong(programs: dict[str, Path], tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "program").write_text(text)
    done = run(programs["rules"], tmp_path / "program")
    assert done.returncode == WRONG
    assert message in done.stderr.decode()


# The ray tracer


def picture(program: Path, folder: Path, scene: str, width: int, height: int) -> list[list[tuple[int, ...]]]:
    """Film a scene in one picture; return its rows of pixels."""
    (folder / "scene").write_text(scene)
    done = run(program, folder / "scene", str(width), str(height), "1")
    assert (done.returncode, done.stderr) == (GOOD, b"")
    header = f"P6\n{width} {height}\n255\n".encode()
    assert done.stdout.startswith(header)
    data = done.stdout[len(header) :]
    assert len(data) == 3 * width * height
    pixels = [tuple(data[place : place + 3]) for place in range(0, len(data), 3)]
    return [pixels[row * width : (row + 1) * width] for row in range(height)]


def test_mirror_shows_what_is_behind_the_camera(programs: dict[str, Path], tmp_path: Path) -> None:
    scene = (
        CAMERA.replace("sky 0 0 0", "sky 0.2 0.4 0.6") + "surface 1 1 1 {}\npolygon -2 0 -2  2 0 -2  2 0 2  -2 0 2\n"
    )
    perfect, none = (picture(programs["raytracer"], tmp_path, scene.format(mirror), 30, 30) for mirror in (1, 0))
    assert {pixel for row in perfect for pixel in row} == {perfect[0][0]}
    assert none[15][15] != none[0][0] == perfect[0][0]


def test_film_is_one_picture_behind_the_other_from_a_camera_that_moves(
    programs: dict[str, Path], tmp_path: Path
) -> None:
    ball = "sphere 0 0 0 1\n"
    moved = [CAMERA.replace("0 -10 0  0 0 0", f"{x} -10 0  {x} 0 0") + ball for x in (0, 2)]
    pictures = [picture(programs["raytracer"], tmp_path, scene, 20, 20) for scene in moved]
    (tmp_path / "scene").write_text(CAMERA + "travel 4 0 0\n" + ball)
    film = run(programs["raytracer"], tmp_path / "scene", "20", "20", "2").stdout
    header = b"P6\n20 20\n255\n"
    assert pictures[0] != pictures[1]
    assert film == b"".join(
        header + bytes(part for row in rows for pixel in row for part in pixel) for rows in pictures
    )


CAMERA = "camera 0 -10 0  0 0 0  53.13010235415598\nsky 0 0 0\n"  # at the origin the picture is 10 high


def test_sphere_covers_the_disc_that_its_silhouette_has(programs: dict[str, Path], tmp_path: Path) -> None:
    rows = picture(programs["raytracer"], tmp_path, CAMERA + "sphere 0 0 0 3\n", 60, 60)
    # From distance 10 the silhouette of radius 3 is seen under asin(0.3); in the plane of the centre that is 10
    # tan(asin(0.3)).
    silhouette = 10 * 0.3 / (1 - 0.3**2) ** 0.5
    for row in range(60):
        for column in range(60):
            distance = (((column + 0.5) / 6 - 5) ** 2 + (5 - (row + 0.5) / 6) ** 2) ** 0.5
            assert (rows[row][column] != (0, 0, 0)) == (distance < silhouette)


def test_polygon_covers_its_shape_and_casts_a_shadow(programs: dict[str, Path], tmp_path: Path) -> None:
    wall = "polygon -2 0 -2  2 0 -2  2 0 2  -2 0 2\n"
    lit = picture(programs["raytracer"], tmp_path, CAMERA + "light 0 -10 0 0.5\n" + wall, 50, 50)
    dark = picture(programs["raytracer"], tmp_path, CAMERA + "light 0 10 0 0.5\n" + wall, 50, 50)
    hidden = picture(programs["raytracer"], tmp_path, CAMERA + "light 0 -40 0 0.5\nsphere 0 -15 0 4\n" + wall, 50, 50)
    for row in range(50):
        for column in range(50):
            inside = 15 <= row < 35 and 15 <= column < 35
            assert (lit[row][column] != (0, 0, 0)) == inside
            assert dark[row][column] == hidden[row][column]
            assert (lit[row][column] > dark[row][column]) == inside


@pytest.mark.parametrize(
    ("scene", "message"),
    [
        ("sphere 0 0 0 -1\n", "1: a sphere has a positive radius"),
        ("\npolygon 0 0 0  1 0 0  1 1 0  0 1 1\n", "2: the corners are not a flat convex polygon"),
        ("sky 0 0 0\n", "no camera"),
        ("cube 1 2 3\n", "1: not understood"),
    ],
)
def test_raytracer_says_which_line_is_wrong(
    programs: dict[str, Path], tmp_path: Path, scene: str, message: str
) -> None:
    (tmp_path / "scene").write_text(scene)
    done = run(programs["raytracer"], tmp_path / "scene", "4", "4", "1")
    assert done.returncode == WRONG
    assert message in done.stderr.decode()


@pytest.mark.parametrize("name", MILESTONES)
def test_usage(programs: dict[str, Path], name: str) -> None:
    done = run(programs[name])
    assert done.returncode == USAGE
    assert done.stderr.startswith(b"usage: ")
