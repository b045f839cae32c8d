"""What a metric cannot see is told, with its place: initialisers, addresses, calls through pointers."""

from __future__ import annotations

TEXT = """\
#include <stdio.h>
typedef struct { int depth, limit; } Stack;
static int total = 3;
static Stack stack = { 1, 2 }, plain;
static int twice(int n) { return 2 * n; }
static int thrice(int n) { return 3 * n; }
static int (*const table[])(int) = { twice, thrice };
static void raise_to(int *where, int n) { *where = n; }
int main(void) {
    int local = 4, other[2], many[] = { 1, 2 };
    int (*through)(int) = &twice;
    int (*again)(int) = twice;
    other[0] = twice(local) + (twice)(2) + through(3) + again(4) + table[0](5);
    raise_to(&local, 7);
    local = other[0];
    stack.depth = local;
    many[0] += total++;
    plain.limit = many[0];
    printf("%d %d %d\\n", local, stack.depth, plain.limit);
    return 0;
}
"""


def uncounted(shop, metric: str) -> list[tuple[int, str]]:
    return [(site.line, site.text.split(":")[0]) for site in shop.report.uncounted.get(metric, ())]


def test_what_cannot_be_seen_is_told_with_its_place(workshop):
    shop = workshop(
        {
            "total": {"write": "total"},
            "local": {"write": "main::local"},
            "many": {"write": "main::many"},
            "depth": {"write": "Stack.depth"},
            "twice": {"call": "twice"},
            "thrice": {"call": "thr*"},
            "elsewhere": {"write": "main::local", "in": "raise_to"},
        }
    )
    shop.write("prog.c", TEXT)
    shop.call("-O1", "prog.c", "-o", "prog")
    output, counts = shop.run()
    assert output == "36 36 4\n"
    assert [counts[name] for name in ("total", "local", "many", "depth", "twice")] == [1, 1, 1, 1, 2]
    assert uncounted(shop, "total") == [(3, "an initialiser")]
    assert uncounted(shop, "local") == [(10, "an initialiser"), (14, "address taken")]
    assert uncounted(shop, "many") == [(10, "an initialiser")]
    assert uncounted(shop, "depth") == [(4, "an initialiser")]
    assert uncounted(shop, "twice") == [(line, "the function's address is taken") for line in (7, 11, 12)]
    assert uncounted(shop, "thrice") == [(7, "the function's address is taken")]
    assert uncounted(shop, "elsewhere") == []


def test_overloads_and_methods_whose_address_is_taken(workshop):
    shop = workshop({"all": {"call": "ns::f"}, "one": {"call": "ns::f(int)"}, "method": {"call": "S::m"}})
    shop.write(
        "prog.cc",
        "#include <cstdio>\nnamespace ns { int f(int n) { return n; } int f(double) { return 9; } }\n"
        "struct S { int k = 2; int m(int n) { return n + k; } };\n"
        "int main() {\n  int (*whole)(int) = ns::f;\n  int (*real)(double) = &ns::f;\n  int "
        "(S::*member)(int) = &S::m;\n  S s;\n"
        '  std::printf("%d\\n", whole(1) + real(2.0) + (s.*member)(3) + ns::f(4) + s.m(5));\n}\n',
    )
    shop.call("-O1", "prog.cc", "-o", "prog", cxx=True)
    assert shop.run() == ("26\n", {"all": 1, "one": 1, "method": 1})
    assert uncounted(shop, "all") == [(5, "the function's address is taken"), (6, "the function's address is taken")]
    assert uncounted(shop, "one") == [(5, "the function's address is taken")]
    assert uncounted(shop, "method") == [(7, "the function's address is taken")]
