"""Random small projects that try to hide a name from whoever reads their text before preprocessing."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

EVENTS = (
    {"enter": "alpha"},
    {"return": "ns::alpha"},
    {"call": "alpha"},
    {"call": "alpha", "in": "outer"},
    {"write": "alpha"},
    {"write": "rec.alpha"},
    {"label": "alpha::out"},
    {"loop": "alpha#1"},
    {"gauge": "alpha"},
    {"enter": "al*ha"},
    {"enter": "alpha", "file": "two.h"},
    {"line": "generated.c:3"},
    {"enter": "malloc"},
    {"call": "malloc"},
)

_MACROS = """
#define CAT(a, b) a##b
#define CAT2(a, b) CAT(a, b)
#define MAKE(x) int alp##x(int n) { return n; }
#define MADE(x) int x##ha(int n) { return n; }
#define MIDDLE(x) al##x##a
#define SUFFIX(x) x##_t
#define LOG(f, ...) print(f, ## __VA_ARGS__)
#define DEFINE(name) int name(int n) { return n; }
#define DECLARE(name, arguments) int name arguments
#define PLAIN(p) p
#define BODY(p) p { return 0; }
#define TWICE(a, b) b a
#define SECOND(a, b) b
#define API extern
#define EMPTY
#define NAME alpha
#define ALIAS NAME
#define LEFT (
#define RIGHT )
#define SEMI ;
#define BEGIN {
#define BLOCK { return 1; }
#define ATTRIBUTE __attribute__((unused))
#define FORMAT(a, b) __attribute__((format(printf, a, b)))
#define SOMETIMES
#define TYPE unsigned int
#define POINTER char *
#define RAISE(x) ++x
#define RAISED ++
#define INVOKE(f) f(1)
#define INVOKER INVOKE
#define alpha_t alpha
#define malloc_of(n) malloc(n)
#define ARGUMENTS int a) { return a; } int other(int b
#define HEADER "two.h"
#define RUN_OF_HASHES(x) /* #### */ x
#define STR(x) #x
#define WRAPPED(f) __attribute__((cold)) f
#define WRAPPED(f) EMPTY f
#define WRAPPED(f) f
#define WRAPPED(f) f EMPTY
#define WRAPPED(f) (f)
#define OF(a) a
#define OF(a) ()
#define OF(a) {}
#define OF(a, b) a
#define alpha gamma
#define alpha alpha
#define alpha BEGIN
#define beta alpha
""".strip().splitlines()

_LINES = """
int alpha(int n);
extern char *alpha(int n);
extern int alpha(int n) ATTRIBUTE;
int alpha(const char *f, ...) FORMAT(1, 2);
int alpha(int n) { return n; }
static int alpha(int n) BLOCK
int alpha(int n) BEGIN return n; }
int (alpha)(int n) { return n; }
int alpha(n) int n; { return n; }
int alpha LEFT int n) { return n; }
int alpha(int n RIGHT { return n; }
int alpha(ARGUMENTS) { return b; }
int NAME(int n) { return n; }
int ALIAS(int n);
MAKE(ha)
MADE(alp)
MAKE(pha)
int MIDDLE(ph)(int n) { return n; }
int CAT(alp, ha)(int n) { return n; }
int CAT2(al, CAT(ph, a))(int n) { return n; }
int __CONCAT(alp, ha)(int n) { return n; }
DEFINE(alpha)
DECLARE(alpha, (int n));
DECLARE(alpha, (int n)) { return n; }
PLAIN(int alpha(int n);)
PLAIN(int alpha(int n)) { return n; }
BODY(int alpha(int n))
BODY(int other(int alpha))
TWICE({ return 1; }, int alpha(int n))
SECOND(int alpha(int n);, int beta(int n) { return n; })
#line 3 "generated.c"
# 3 "generated.c"
/* ## alpha ## */ int nothing;
// int alpha(int n) { return n; }
const char *text = "alpha(1) {";
const char *raw = R"(alpha() { ")";
struct rec { int alpha; };
struct rec { TYPE alpha, other; };
struct rec { POINTER alpha[4]; };
int alpha;
static TYPE alpha = 3;
extern int alpha;
void *malloc(unsigned long n) { return 0; }
template <class T> int alpha(T n) { return n; }
auto alpha = [](int n) { return n; };
int beta(int n);
#undef NAME
#pragma alpha
DECLARE(beta, (int n)) { return n; }
INT64_C(5);
LOG("alpha", 1);
int (*table[])(int) = { alpha, beta };
int (*one)(int) = alpha;
SUFFIX(alp)
SUFFIX(alpha) x;
int WRAPPED(alpha)(int n);
extern char *WRAPPED(alpha)(int n) ATTRIBUTE;
int WRAPPED(alpha)(int n) { return n; }
int WRAPPED(alpha) OF((int n));
int alpha OF((int n));
extern int API alpha OF((int n, int m)) ATTRIBUTE;
int alpha OF((int n)) { return n; }
int alpha OF(int n);
int beta(int n) { return 2; }
""".strip().splitlines()

_BLOCKS = """
#if 0
int alpha(int n)
#endif
{ return 1; }

#ifdef SOMETIMES
int alpha(int n)
#else
int alpha(int n);
#endif
{ return 1; }

int alpha(int a
#ifdef SOMETIMES
, int b) { return 1; }
#else
);
#endif

int al\\
pha(int n) { return n; }

%:define SPELLED alpha
int SPELLED(int n) { return n; }
int SPELLED(int n);

#define PASTED(x) al ## /* pha */ x
int PASTED(pha)(int n) { return n; }

#define LONG(x) \\
  int alp ## \\
  x(int n) { return n; }
LONG(ha)

#define COMMENTED(x) /* a
 comment */ alp##x
int COMMENTED(ha)(int n) { return n; }

#define HEADER_OF_TWO "two.h"
#include HEADER_OF_TWO
""".strip().split("\n\n")

_INSIDE = """
alpha(1);
x = alpha(1) + 2;
if (alpha(1)) { x++; }
while (alpha(x)) x--;
return alpha(2);
INVOKE(alpha);
INVOKER(alpha);
PLAIN(alpha(2));
(alpha)(1);
y(alpha);
y(1, alpha, 2);
PLAIN(alpha) (1);
CAT(alp, ha)(3);
MIDDLE(ph)(3);
alpha = 3;
x = alpha;
RAISE(alpha);
RAISED alpha;
EMPTY alpha;
r.alpha = 3;
x = r->alpha;
r->alpha++;
f(&alpha);
f(*alpha, 1);
goto out;
out: x = 1;
for (;;) x++;
x = malloc(3);
malloc_of(4);
else alpha(1);
sizeof alpha(1);
int alpha SEMI
TYPE alpha;
EMPTY f alpha(1);
alpha
(1);
alpha /* c */ (1);
a ? alpha : 2;
case alpha: break;
alpha ARGUMENTS);
alpha[3] = 1;
x = WRAPPED(alpha)(1);
alpha OF((1));
beta(1);
""".strip().splitlines()

_SCRAPS = (
    *(
        "alpha",
        "al",
        "pha",
        "##",
        "#",
        "\\\n",
        "\\ \n",
        "/*",
        "*/",
        "//",
        '"',
        "'",
        'R"(',
        ')"',
        'u8R"',
        "'a",
        "1e+",
        "\\",
    ),
    *("(", ")", "{", "}", "[", "]", "<", ">", ",", ";", "=", "...", "%:", "??/", "??=", "\r", "\0", "\xff", "## ##"),
    *(
        "__VA_OPT__(",
        "__VA_ARGS__",
        "\n",
        "\n#define ",
        "\n#define X(a) ",
        "\n#include ",
        "\n#include_next <",
        "\n#pragma ",
    ),
    *(
        "\n#if 0\n",
        "\n#endif\n",
        '\n#define R"(x)" ',
        "X(",
        "\n#define F\\\n(x) alp##x\n",
        "F(ha)",
        '\n#line 3 "generated.c"\n',
    ),
)

_SYSTEM = ("stdio.h", "stdlib.h", "string.h", "inttypes.h", "sys/cdefs.h", "math.h")


@dataclass(frozen=True)
class Project:
    """Files of a project (the first is compiled), and flags."""

    files: dict[str, str]
    flags: tuple[str, ...]

    def write(self, folder: Path) -> str:
        """Write the files; return the source's name."""
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return next(iter(self.files))


def random_project(seed: int) -> Project:
    """Return a project; its text need not be a program, only preprocess."""
    choose = random.Random(seed)
    names = ["one.h", "two.h", "inc/three.h", "inc/deep/four.h"]
    known = choose.sample(_MACROS, choose.randrange(2, 9))
    files = {}
    for number, name in enumerate(["main.cc" if choose.random() < 0.2 else "main.c", *names]):
        lines = [f"#include <{choose.choice(_SYSTEM)}>" for _ in range(choose.randrange(2))]
        lines += choose.sample(known, choose.randrange(1 + len(known)))
        pieces = [
            f'#include "{choose.choice(["", "./"])}{Path(later).name}"'
            for later in names[number:]
            if choose.random() < (0.6 if number == 0 else 0.3)
        ]
        for _ in range(choose.randrange(4)):
            piece = _random_piece(choose)
            if choose.random() < 0.25:
                piece = f"#if{choose.choice(['def SOMETIMES', 'ndef NAME', ' 0', ' 1'])}\n{piece}\n#endif"
            pieces.append(piece)
        choose.shuffle(pieces)
        files[name] = "\n".join([*lines, *pieces, ""])
    flags = ["-Iinc", "-Iinc/deep", "-D__UNUSED"]
    flags += choose.sample(
        ["-DNAME=alpha", "-DSOMETIMES", "-Dalp=zz", "-DNAME(x)=x##ha", "-include", "-DHEADER=<three.h>"],
        choose.randrange(2),
    )
    if "-include" in flags:
        flags.insert(flags.index("-include") + 1, "two.h")
    return Project(files, tuple(flags))


def garbled(project: Project, seed: int) -> Project:
    """Return a project with scraps inserted, text left out and text repeated at random, half of its files as they were."""
    choose = random.Random(seed)
    files = {}
    for name, text in project.files.items():
        for _ in range(choose.choice([0, 0, 0, 1, 1, 2, 8])):
            at, other = choose.randrange(len(text) + 1), choose.randrange(len(text) + 1)
            inserted = choose.choice([choose.choice(_SCRAPS), choose.choice(_SCRAPS), "", text[other : other + 40]])
            text = text[:at] + inserted + text[at + (choose.randrange(1, 12) if not inserted else 0) :]  # noqa: PLW2901
        files[name] = text
    return Project(files, project.flags)


def _random_piece(choose: random.Random) -> str:
    if choose.random() < 0.35:
        body = "\n".join(choose.sample(_INSIDE, choose.randrange(1, 3)))
        name = choose.choice(["outer", "gamma", "beta"])
        return f"int {name}(int x)\n{{\n{body}\n}}"
    if choose.random() < 0.2:
        return choose.choice(_BLOCKS)
    start = choose.randrange(len(_LINES))
    return "\n".join(_LINES[start : start + choose.choice([1, 1, 2, 3, 5])])
