import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.causal.independence.naive import canonical_squares, information, residuals
from unperturbed.analysis.causal.independence.loops import (
    canonical,
    gaussian,
    information_of_permutation,
    orthonormal,
    orthonormalise,
    project_out,
)
from unperturbed.analysis.causal.independence.methods.kernel import CombinedTest, KernelTest
from unperturbed.analysis.causal.independence.methods.paper import PaperTest
from unperturbed.analysis.causal.independence.methods.regression import RegressionTest
from unperturbed.analysis.causal.independence.residuals import ConditioningSet, features_of, normal_scores
from unperturbed.analysis.causal.table.variables import prepare

seeds = st.integers(0, 2**32)


def data(**columns):
    return prepare(pl.DataFrame(columns))


def mixed(random, rows, cells=3):
    s = random.standard_normal(rows)
    return data(
        s=s,
        d=[f"type {one}" for one in random.integers(0, cells, rows)],
        p=np.exp(s + random.standard_normal(rows)),
        x=random.standard_normal(rows),
    )


class TestFeatures:
    def test_a_positive_variable_comes_as_its_logarithm_too(self):
        random = np.random.default_rng(0)
        made = features_of(
            data(n=random.uniform(1, 1000, 300), near=random.uniform(100, 110, 300), any=random.standard_normal(300))
        )
        assert [made[name].scales.shape[1] for name in ("n", "near", "any")] == [2, 1, 1]

    def test_columns_are_standard(self):
        for one in features_of(mixed(np.random.default_rng(1), 200)).values():
            for columns in (one.scales, one.curve, one.rest):
                assert np.allclose(columns.mean(axis=0), 0)
                assert np.allclose((columns**2).mean(axis=0), 1)

    def test_heavy_tails_are_replaced_by_ranks(self):
        values = np.random.default_rng(2).standard_cauchy(500)
        found = features_of(data(x=values, y=np.arange(500)))["x"].scales[:, 0]
        assert np.allclose(found, normal_scores(values) / normal_scores(values).std())

    def test_rare_categories_share_an_indicator(self):
        text = ["a"] * 50 + ["b"] * 40 + ["c"] * 3 + ["d"] * 4
        made = features_of(data(x=text, y=np.arange(97)))["x"]
        assert made.scales.shape[1] == 2
        assert made.categories == 4
        assert len(np.unique(made.scales[90:], axis=0)) == 1

    def test_equal_values_share_a_normal_score(self):
        assert normal_scores(np.array([1.0, 2.0, 2.0, 3.0]))[1:3].tolist() == [0.0, 0.0]


class TestResiduals:
    @settings(deadline=None, max_examples=20)
    @given(seeds, st.integers(60, 200))
    def test_they_are_those_of_least_squares_in_each_cell(self, seed, rows):
        table = mixed(np.random.default_rng(seed), rows, cells=2)
        made = features_of(table)
        for held in ((), ("s",), ("d",), ("s", "d")):
            fixed = ConditioningSet(made, held, rows)
            left = fixed.residuals(made["p"].curve)
            blocks = (
                [np.flatnonzero(table.codes("d") == code) for code in range(2)] if "d" in held else [np.arange(rows)]
            )
            parameters = 0
            for block in blocks:
                columns = np.hstack([made["s"].scales, made["s"].rest])[block, : max(0, len(block) // 5 - 1)]
                basis = np.hstack([np.ones((len(block), 1)), columns if "s" in held else columns[:, :0]])
                parameters += np.linalg.matrix_rank(basis)
                assert np.allclose(left[block], residuals(made["p"].curve[block], basis), atol=1e-6)
            assert fixed.parameters == parameters

    def test_small_cells_have_means_of_their_own_and_share_a_curve(self):
        random = np.random.default_rng(3)
        rows = 120
        cell = np.repeat(np.arange(20), 6)
        s = random.standard_normal(rows)
        table = data(s=s, d=[f"c{one}" for one in cell], x=2 * s + cell)
        fixed = ConditioningSet(features_of(table), ("s", "d"), rows)
        assert np.allclose(fixed.residuals(features_of(table)["x"].scales[:, :1]), 0, atol=1e-9)

    def test_leverage(self):
        random = np.random.default_rng(4)
        table = mixed(random, 150)
        fixed = ConditioningSet(features_of(table), ("s", "d"), 150)
        assert np.isclose((1 - fixed.residual_variances()).sum(), fixed.parameters)
        whole = np.eye(150)
        assert np.allclose(np.diag(fixed.residuals(whole)), fixed.residual_variances(), atol=1e-8)

    @pytest.mark.parametrize("seed", range(3))
    def test_uneven_residuals_are_those_of_weighted_least_squares(self, seed):
        random = np.random.default_rng(seed)
        rows = 120
        s, kind = random.uniform(-2, 2, rows), random.integers(0, 2, rows)
        uneven = features_of(data(s=s, d=[f"c{one}" for one in kind], x=np.exp(2 * s) * random.standard_normal(rows)))
        for held in (("s",), ("d", "s")):
            fixed = ConditioningSet(uneven, held, rows)
            left, scales = fixed.even_residuals(uneven["x"])
            assert scales == 1
            plain = np.abs(fixed.residuals(uneven["x"].curve)[:, 0])
            size = plain / plain.mean()
            expected = np.maximum(size - fixed.residuals(size[:, None] - 1)[:, 0], 0.2)
            # The space that the residuals are orthogonal to: what is held fixed leaves nothing of it.
            basis = np.linalg.svd(np.eye(rows) - fixed.residuals(np.eye(rows)))[0][:, : fixed.parameters]
            weighted = residuals(uneven["x"].curve / expected[:, None], basis / expected[:, None])
            assert np.allclose(left, weighted, atol=1e-6)

    def test_errors_in_proportion_are_even_on_the_scale_of_logarithms(self):
        random = np.random.default_rng(5)
        s = random.uniform(1, 100, 300)
        made = features_of(data(s=s, z=s**2 * np.exp(0.1 * random.standard_normal(300))))
        left, _ = ConditioningSet(made, ("s",), 300).even_residuals(made["z"])
        low, high = np.std(left[s < 30, 0]), np.std(left[s > 70, 0])
        assert 0.7 < low / high < 1.4

    @settings(deadline=None, max_examples=20)
    @given(seeds, st.integers(1, 6), st.integers(1, 4))
    def test_the_loops_leave_what_is_orthogonal(self, seed, size, others):
        random = np.random.default_rng(seed)
        basis = random.standard_normal((size, 30))
        basis[-1] = basis[0] * 2  # a combination of others is left out
        columns = random.standard_normal((others, 30))
        starts, most = np.array([0, 12, 30]), np.array([size, size])
        expected = columns.copy()
        for first, end in ((0, 12), (12, 30)):
            expected[:, first:end] = residuals(columns[:, first:end].T, basis[:, first:end].T).T
        kept = orthonormalise(basis, starts, most)
        assert kept.tolist() == [max(1, size - 1)] * 2
        project_out(basis, starts, kept, columns)
        assert np.allclose(columns, expected)


class TestAssociation:
    @settings(deadline=None, max_examples=20)
    @given(seeds, st.integers(1, 4), st.integers(1, 4))
    def test_canonical_correlations(self, seed, p, q):
        random = np.random.default_rng(seed)
        one = random.standard_normal((60, p))
        other = random.standard_normal((60, q)) + one[:, :1]
        squares, inflation = canonical(orthonormal(one, 1e-9, 1e-9), orthonormal(other, 1e-9, 1e-9))
        assert np.allclose(np.sort(squares)[::-1], canonical_squares(one, other), atol=1e-9)
        assert inflation > 0

    def test_a_basis_leaves_out_what_is_nothing_or_said_twice(self):
        one = np.random.default_rng(0).standard_normal((50, 2))
        columns = np.column_stack([one, one.sum(axis=1), np.full(50, 1e-9)])
        found = orthonormal(columns, 1e-7, 1e-8)
        assert found.shape == (50, 2)
        assert np.allclose(found.T @ found, np.eye(2))


def chain(seed, rows, effect=0.0):
    """s → x, s → z in curved ways, in cells that differ; x → z if there is an effect."""
    random = np.random.default_rng(seed)
    s, d = random.standard_normal(rows), random.integers(0, 3, rows)
    x = np.sin(s) * (d - 1) + 0.3 * random.standard_normal(rows)
    z = s**2 + d + effect * x + 0.3 * random.standard_normal(rows)
    return data(s=s, d=[f"c{one}" for one in d], x=x, z=z, c=[f"k{one}" for one in random.integers(0, 4, rows)])


PROPORTIONAL = {
    "1/x": (lambda x: 1 / x, 400, 0.02, 0.05),
    "x²": (lambda x: x**2, 300, 0.1, 0.05),
    "x³, few rows": (lambda x: x**3, 50, 0.1, 0.1),
    "x (x − 1)": (lambda x: x * (x - 1), 200, 0.02, 0.05),
}


def proportional(form, seed, effect=0.0):
    """x → y → z, each with noise in proportion, and x → z if there is an effect."""
    make, rows, noise_y, noise_z = PROPORTIONAL[form]
    random = np.random.default_rng([8, seed])
    x = np.exp(random.uniform(0.5, 7, rows)) if "−" in form else random.uniform(1, 100, rows)
    y = make(x) * np.exp(noise_y * random.standard_normal(rows))
    z = 2.5 * y * x**effect * np.exp(noise_z * random.standard_normal(rows))
    return data(x=x, y=y, z=z)


class TestRegression:
    def test_p_values_are_right_where_there_is_nothing(self):
        found = np.array(
            [
                [
                    RegressionTest(table).test("x", "z", ["s", "d"]).p_value,
                    RegressionTest(table).test("c", "z", ["s"]).p_value,
                ]
                for table in (chain(seed, 150) for seed in range(40))
            ]
        )
        # 40 uniform p-values: at most 6 of 2 expected below .05, at most 2 below .01 (chances below 1 %).
        assert (np.sum(found < 0.05, axis=0) <= 6).all()
        assert (np.sum(found < 0.01, axis=0) <= 2).all()
        # Nor are they far too careful.
        assert (np.sum(found < 0.5, axis=0) >= 11).all()

    @pytest.mark.parametrize("rows", [5, 6, 7, 8])
    @pytest.mark.thorough
    def test_few_rows_make_no_false_alarms(self, rows):
        """With more columns than rows leave room for, some of one variable is always some of the other."""
        found, times = 0, 400
        for seed in range(times):
            random = np.random.default_rng(seed)
            sizes = random.choice([2.0, 4, 4, 8, 8, 16], rows) + random.normal(0, 0.01, rows)
            test = RegressionTest(data(x=sizes, y=random.lognormal(0, 1, rows)), alpha=0.05)
            found += not test.test("x", "y").independent
        assert found / times <= 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / times)

    def test_noise_that_grows_in_both_is_no_dependence(self):
        p_values = []
        for seed in range(40):
            random = np.random.default_rng(seed)
            s = random.standard_normal(300)
            x, z = np.exp(s) * random.standard_normal((2, 300))
            p_values.append(RegressionTest(data(s=s, x=x, z=z)).test("x", "z", ["s"]).p_value)
        assert np.sum(np.array(p_values) < 0.01) <= 3

    @pytest.mark.parametrize("form", PROPORTIONAL)
    @pytest.mark.thorough
    def test_noise_in_proportion_on_every_variable_is_no_dependence(self, form):
        """x → y = f(x) → z = a·y: what a regression on y misses of x where y is small is no dependence of z on x."""
        p_values = np.array(
            [RegressionTest(proportional(form, seed)).test("x", "z", ["y"]).p_value for seed in range(40)]
        )
        assert np.sum(p_values < 0.05) <= 6
        assert np.sum(p_values < 0.01) <= 2

    @pytest.mark.parametrize("form", ["1/x", "x²"])
    def test_an_effect_beside_noise_in_proportion_is_seen(self, form):
        found = [RegressionTest(proportional(form, seed, effect=1.0)).test("x", "z", ["y"]) for seed in range(10)]
        assert sum(one.independent for one in found) <= 1

    @pytest.mark.parametrize("effect", [0.4, -0.4])
    def test_an_effect_is_seen_through_curves_and_cells(self, effect):
        found = [RegressionTest(chain(seed, 300, effect)).test("x", "z", ["s", "d"]) for seed in range(8)]
        assert not any(one.independent for one in found)
        assert all(0.05 < one.bits < 0.4 for one in found)

    def test_opposite_effects_in_two_cells_are_seen(self):
        random = np.random.default_rng(5)
        x, d = random.standard_normal(400), random.integers(0, 2, 400)
        table = data(x=x, d=[f"c{one}" for one in d], z=x * (2 * d - 1) + random.standard_normal(400))
        test = RegressionTest(table)
        assert test.test("x", "z").independent
        assert not test.test("x", "z", ["d"]).independent

    def test_a_product_is_a_sum_of_logarithms(self):
        random = np.random.default_rng(6)
        ops, cycles = random.uniform(1, 1e6, 400), random.uniform(50, 60, 400)
        test = RegressionTest(data(ops=ops, C=cycles, T=ops * cycles * np.exp(0.001 * random.standard_normal(400))))
        assert not test.test("C", "T", ["ops"]).independent
        assert test.test("C", "T", ["ops"]).bits > 3

    def test_what_is_determined_is_independent_and_said(self):
        random = np.random.default_rng(7)
        n = random.integers(5, 301, 400)
        kind = random.integers(0, 6, 400)
        table = data(
            n=n,
            ops=n * (n - 1) * (2 * n - 1) / 6,
            kind=[f"t{one}" for one in kind],
            size=np.array([2, 4, 4, 8, 8, 12])[kind],
            T=n**3 * np.exp(0.1 * random.standard_normal(400)),
        )
        test = RegressionTest(table)
        assert test.test("n", "T", ["ops"]).determined == "n"
        assert test.test("T", "ops", ["n"]).independent
        assert test.determines(["kind"], "size")
        assert not test.determines(["size"], "kind")
        assert not test.determines([], "n")
        assert not test.determines(["ops"], "T")

    def test_repetitions_of_random_points_determine_nothing(self):
        random = np.random.default_rng(3)
        points = np.repeat(np.arange(80), 3)
        n, kind, x = random.integers(5, 10**6, 80), random.choice(["a", "b", "c"], 80), random.standard_normal(80)
        test = RegressionTest(data(n=n[points], kind=kind[points], x=x[points], twice=2.0 * n[points]))
        assert not test.determines(["n"], "kind")
        assert not test.determines(["n"], "x")
        assert test.determines(["n"], "twice")

    def test_few_values_determine_what_is_the_same_at_each(self):
        random = np.random.default_rng(4)
        n = random.choice([50.0, 100.5, 200.0, 400.0], 120)
        test = RegressionTest(data(n=n, size=np.sqrt(n), other=random.integers(0, 2, 120)))
        assert test.determines(["n"], "size")
        assert not test.determines(["n"], "other")

    def test_a_step_determines_too(self):
        random = np.random.default_rng(8)
        n = random.uniform(0, 1, 400)
        table = data(
            n=n, step=np.where(n > 0.3, 5.0, 1.5) + np.where(n > 0.7, 1.0, 0.0), other=random.standard_normal(400)
        )
        assert RegressionTest(table).determines(["n"], "step")
        assert not RegressionTest(table).determines(["other"], "step")

    def test_bits_are_those_of_the_distribution(self):
        random = np.random.default_rng(9)
        x = random.standard_normal(5000)
        z = 0.6 * x + 0.8 * random.standard_normal(5000)
        assert math.isclose(RegressionTest(data(x=x, z=z)).test("x", "z").bits, -0.5 * math.log2(1 - 0.36), rel_tol=0.1)
        # A discrete variable has no more to tell than its entropy.
        kind = random.integers(0, 4, 400)
        told = RegressionTest(data(kind=[f"t{one}" for one in kind], size=(2.0**kind).tolist())).test("kind", "size")
        assert math.isclose(told.bits, 2.0, rel_tol=0.01)

    def test_the_order_of_the_two_and_of_the_rest_changes_nothing(self):
        test = RegressionTest(chain(0, 200))
        assert test.test("x", "z", ["s", "d"]) is test.test("z", "x", ["d", "s"])


def circle(seed, rows):
    random = np.random.default_rng(seed)
    angle = random.uniform(0, 2 * np.pi, rows)
    x, z = np.cos(angle), np.sin(angle)
    return data(
        x=x + 0.1 * random.standard_normal(rows),
        z=z + 0.1 * random.standard_normal(rows),
        s=random.standard_normal(rows),
    )


class TestKernel:
    def test_it_sees_what_regression_does_not(self):
        table = circle(0, 200)
        regression, kernel = RegressionTest(table), KernelTest(table)
        assert regression.test("x", "z").independent
        assert not kernel.test("x", "z").independent
        assert not kernel.test("x", "z", ["s"]).independent
        combined = CombinedTest(regression, kernel)
        assert not combined.test("x", "z").independent
        assert combined.test("x", "s").independent

    def test_p_values_are_right_where_there_is_nothing(self):
        found = np.array([KernelTest(chain(seed, 150)).test("x", "z", ["s", "d"]).p_value for seed in range(40)])
        assert np.sum(found <= 0.05) <= 6
        assert np.sum(found <= 0.01) <= 3

    def test_few_rows_with_noise_in_proportion_make_no_dependence(self):
        table = [proportional("x³, few rows", seed) for seed in range(40)]
        found = np.array([KernelTest(one).test("x", "z", ["y"]).p_value for one in table])
        assert np.sum(found <= 0.05) <= 6
        assert np.sum(found <= 0.01) <= 3

    def test_the_same_seed_gives_the_same_whatever_was_asked_before(self):
        table = chain(1, 150)
        one, other = KernelTest(table), KernelTest(table)
        one.test("c", "z")
        assert one.test("x", "z", ["s"]) == other.test("z", "x", ["s"])

    def test_a_long_table_is_drawn_from(self):
        assert not KernelTest(circle(1, 3000), most_rows=300).test("x", "z").independent

    @settings(deadline=None, max_examples=25)
    @given(seeds)
    def test_the_loop_is_the_definition(self, seed):
        random = np.random.default_rng(seed)
        rows = 12
        x, y, z = random.standard_normal((3, rows))
        order = random.permutation(rows)
        squares = []
        for values in (x, y, z):
            square = np.ones((rows, rows), np.float32)
            gaussian(values, 1.0, square)
            squares.append(square)
        by_hand = information([x[order]], [y], [z], ([x[order]], [y], [z])) * rows
        level = np.log2(squares[2].sum(axis=1) / (squares[2] * squares[1]).sum(axis=1)).sum()
        assert math.isclose(information_of_permutation(*squares, order) + level, by_hand, rel_tol=1e-4, abs_tol=1e-4)


class TestPaper:
    def test_it_is_the_definition(self):
        random = np.random.default_rng(0)
        rows = 20
        x, y = random.uniform(size=(2, rows))
        kind = random.integers(0, 2, rows)
        table = data(x=x, y=y, kind=[f"t{one}" for one in kind])
        draws = 2000
        test = PaperTest(table, seed=3, draws=draws * rows)
        shifts = np.random.default_rng(3)
        shift = {name: shifts.standard_normal(draws * rows) for name in ("x", "y", "kind")}
        source = np.repeat(np.arange(rows), draws)[::97]
        scaled = {name: values / (4 * np.ptp(values) / rows) for name, values in (("x", x), ("y", y))}
        at = {name: scaled[name][source] + shift[name][::97] for name in scaled}
        by_hand = information([scaled["x"]], [scaled["y"]], [kind], ([at["x"]], [at["y"]], [kind[source]]))
        assert math.isclose(test.information("x", "y", ["kind"]), by_hand, abs_tol=0.05)

    @pytest.mark.parametrize(("rows", "expected"), [(50, 0.15), (100, 0.31), (400, 1.16), (1000, 2.07)])
    def test_its_value_for_independent_variables_grows_with_the_rows(self, rows, expected):
        found = [
            PaperTest(data(x=random.uniform(size=rows), y=random.uniform(size=rows))).information("x", "y")
            for random in map(np.random.default_rng, range(4))
        ]
        assert math.isclose(np.mean(found), expected, abs_tol=0.05)

    def test_its_thresholds(self):
        random = np.random.default_rng(1)
        n = random.uniform(size=60)
        kind = random.integers(0, 2, 60)
        test = PaperTest(
            data(n=n, T=n + 0.01 * random.uniform(size=60), kind=[f"t{one}" for one in kind], size=n + kind)
        )
        assert not test.test("n", "T").independent
        assert not test.test("kind", "size").independent
        assert test.test("kind", "n").independent
        assert math.isnan(test.test("n", "T").p_value)
