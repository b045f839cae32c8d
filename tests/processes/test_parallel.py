"""Work that joblib's context shares among threads, processes and a dask cluster gives the same to the last bit."""

import importlib.util
import logging
import os
import signal
import sys
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest

import unperturbed as up
from experiments.calibration import power, whole
from tests.analysis import simulate
from tests.benchmarks.large_campaign import make
from unperturbed.analysis import parallel
from unperturbed.analysis.alignment import distance_matrix, warp_paths
from unperturbed.analysis.alignment.dtw import pairs
from unperturbed.analysis.perturbation import Baseline
from unperturbed.errors import DataError, HostError
from unperturbed.harness.results.judge import judge
from unperturbed.harness.results.recorded import recorded_campaign

WAYS = ("threading", "loky", pytest.param("dask", marks=pytest.mark.long))

# A warning that was raised in the threads of dask's cluster would end the cluster.
pytestmark = pytest.mark.filterwarnings("default::ResourceWarning")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A real cluster: a scheduler, and two workers that are processes of their own."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            dashboard_address=":0",  # any free port
            silence_logs=logging.CRITICAL,
            local_directory=str(tmp_path_factory.mktemp("dask")),  # the default is shared with other test runs
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def wait_for_workers(client):
    """Wait until there are two workers; add one for a nanny that on a busy host gave up an ended worker."""
    try:
        client.wait_for_workers(2, timeout=60)
    except TimeoutError:
        client.cluster.scale(3)
        client.wait_for_workers(2, timeout=60)


@pytest.fixture(autouse=True)
def _small_work_is_shared_too(monkeypatch):
    monkeypatch.setattr(parallel, "_WORTH_S", 0.0)
    monkeypatch.setattr(pairs, "_CHUNK_CELLS", 1)


@pytest.fixture(params=WAYS)
def shared(request):
    """What makes joblib share work in each way."""
    if request.param == "dask":
        request.getfixturevalue("client")
        return lambda: joblib.parallel_config("dask")
    return lambda: joblib.parallel_config(request.param, n_jobs=2)


def processes(common, chunk):
    return os.getpid(), len(common[chunk]), common.flags.writeable


def test_large_arrays_reach_other_processes_once_and_read_only(shared):
    numbers = np.random.default_rng(1).normal(size=(1000, 400))  # 3.2 MB
    with shared():
        workers = parallel.choose_workers()
        found = list(workers.map(processes, numbers, workers.chunks(1000)))
    assert workers.count == 2
    assert [size for _, size, _ in found] == [125] * 8
    if not workers.shares_memory:
        assert os.getpid() not in {process for process, *_ in found}
        assert not any(writeable for *_, writeable in found)


def test_costs_and_paths(shared):
    rng = np.random.default_rng(2)
    series = [rng.normal(size=(int(length), 4)) for length in rng.integers(900, 1100, 40)]
    assert sum(one.nbytes for one in series) > 1 << 20
    costs, paths = distance_matrix(series, band=20), warp_paths(series[:6], penalty=0.25)
    with shared():
        assert np.array_equal(distance_matrix(series, band=20), costs)
        elsewhere = warp_paths(series[:6], penalty=0.25)
    assert list(elsewhere) == list(paths)
    for pair, path in paths.items():
        assert elsewhere[pair].cost == path.cost
        assert np.array_equal(elsewhere[pair].x_index, path.x_index)
        assert np.array_equal(elsewhere[pair].y_index, path.y_index)
        assert not elsewhere[pair].y_index.flags.writeable


def test_whole_numbers_are_aligned_as_32_bits(shared):
    rng = np.random.default_rng(3)
    series = [rng.integers(0, 50, 3000) for _ in range(9)]
    with shared():
        elsewhere = distance_matrix(series, penalty=2, band=100)
    assert np.array_equal(elsewhere, distance_matrix(series, penalty=2, band=100))


def test_inner_and_outer_checks(shared):
    rng = np.random.default_rng(4)
    correlation = simulate.equicorrelated(12, 0.3)
    program = simulate.program(rng, correlation=correlation, intervals=1500, phi=0.7)  # BLAS has threads for so many
    reference = simulate.runs(program, rng, 6)
    checked = simulate.runs(program, rng, 3, configuration="checked")

    def verdicts():
        baseline = Baseline(reference, metrics=program.names)
        on = program.names[-1:]
        yield baseline.inner(checked)
        yield baseline.outer(checked, align_on=on, anchor=simulate.MILESTONE)
        yield baseline.outer(checked, align_on=on, across=True)
        yield baseline.outer(checked, align_on=on, against=reference[0])

    alone = [verdict.to_dict() for verdict in verdicts()]
    with shared():
        assert [verdict.to_dict() for verdict in verdicts()] == alone


@pytest.mark.parametrize("shared", ["threading", "loky", "dask"], indirect=True)
def test_the_check_of_a_campaign_and_its_report(shared, tmp_path):
    folder = tmp_path / "campaign"
    make(folder, 32, 5, 4, intervals=80)

    def results():
        judge(folder, recorded_campaign(folder))
        return up.check(folder).to_dict(), *((folder / name).read_bytes() for name in ("report.html", "verdicts.json"))

    alone = results()
    with shared():
        assert results() == alone


@pytest.mark.parametrize("shared", ["loky"], indirect=True)
def test_the_calibration_s_page(shared, tmp_path, monkeypatch):
    path = Path(__file__).parents[2] / "docs/evidence/calibration.py"
    spec = importlib.util.spec_from_file_location("shared_calibration", path)
    study = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "shared_calibration", study)
    spec.loader.exec_module(study)
    goal = {**study.GOAL, "intervals": 90, "k": 5}
    curves = {**study.CURVES, "intervals": (60, 90), "phi": (0.7,)}
    for module, smaller in (
        (study, {"PHI": (0.7,), "INTERVALS": (60,), "GOAL": goal, "CURVES": curves, "NODES": study.NODES[:1]}),
        (study, {"made_by": lambda: "Made by somebody.", "plot": lambda *_: None}),
        (whole, {"WHOLE": ((5, 3),), "WHOLE_SHARE": {60: 1}}),
        (power, {"GOAL": goal, "CURVES": curves}),
    ):
        for name, value in smaller.items():
            monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(study, "PAGE", study.PAGE.replace("{seconds:.0f} s", ""))
    for name in ("shared_calibration", "experiments.calibration"):
        cloudpickle.register_pickle_by_value(sys.modules[name])  # as if it were run as a script
    alone = study.page(4, 1, tmp_path / "one.svg")
    with shared():
        assert study.page(4, 1, tmp_path / "one.svg") == alone


def test_a_number_of_jobs_alone_takes_processes_for_checks_and_threads_for_kernels():
    with joblib.parallel_config(n_jobs=2):
        assert not parallel.choose_workers(kernels=False).shares_memory
        threads = parallel.choose_workers()
    assert threads.shares_memory
    assert threads.count == 2


def test_by_default_kernels_take_threads_and_checks_none():
    assert parallel.choose_workers(3).count == 3
    assert parallel.choose_workers(3).shares_memory
    assert parallel.choose_workers().shares_memory
    assert parallel.choose_workers(kernels=False) == parallel.Workers(1)
    with joblib.parallel_config("loky"):  # all processors, where joblib itself would take one
        assert parallel.choose_workers(kernels=False).count == joblib.cpu_count()


def nested(_common, _chunk):
    return parallel.choose_workers().count


def test_a_task_of_joblib_s_own_takes_no_further_workers():
    with joblib.parallel_config("loky", n_jobs=2):
        found = joblib.Parallel()(joblib.delayed(nested)(None, one) for one in range(2))
    assert found == [1, 1]


def refuse(_common, chunk):
    raise DataError(f"part {chunk} cannot be analysed")


def test_an_error_in_a_worker_is_the_error_here(shared):
    with shared(), pytest.raises(DataError, match=r"part \d cannot"):
        list(parallel.choose_workers().map(refuse, None, range(2)))


def test_an_interrupt_stops_the_work_and_the_next_is_done(shared):
    series = [np.random.default_rng(one).normal(size=500) for one in range(12)]

    def interrupt(done, _all_pairs):
        assert done
        raise KeyboardInterrupt

    with shared():
        with pytest.raises(KeyboardInterrupt):
            distance_matrix(series, progress=interrupt)
        assert np.array_equal(distance_matrix(series), distance_matrix(series, workers=1))


def end(path, chunk):
    """End this process, once if there is a file to remember it by."""
    if chunk == 1 and (path is None or not path.exists()):
        if path is not None:
            path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return chunk


def test_a_lost_process_is_one_clear_message():
    with joblib.parallel_config("loky", n_jobs=2):
        workers = parallel.choose_workers()
        with pytest.raises(HostError, match="a worker process ended before its work was done"):
            list(workers.map(end, None, range(4)))
        assert list(workers.map(nested, None, [1])) == [1]


def test_another_worker_of_dask_does_what_a_lost_one_had(client, tmp_path):
    wait_for_workers(client)  # else the one that ends is the only one with the data
    with joblib.parallel_config("dask"):
        assert list(parallel.choose_workers().map(end, tmp_path / "ended", range(4))) == [0, 1, 2, 3]


def test_data_that_a_lost_worker_of_dask_had_alone_is_sent_again(client, tmp_path, monkeypatch):
    wait_for_workers(client)
    scatter, calls = client.scatter, []

    def to_one(data, **options):
        calls.append(options["broadcast"])
        alone = {"broadcast": False, "workers": list(client.scheduler_info()["workers"])[:1]}
        return scatter(data, **{**options, **(alone if len(calls) == 1 else {})})

    monkeypatch.setattr(client, "scatter", to_one)
    with joblib.parallel_config("dask"):
        assert list(parallel.choose_workers().map(end, tmp_path / "ended", [1])) == [1]
    assert (tmp_path / "ended").exists()
    assert calls == [True, True]


def test_work_that_ends_every_worker_of_dask_is_one_clear_message(client):
    def set_allowed(number, dask_scheduler=None):
        before, dask_scheduler.allowed_failures = dask_scheduler.allowed_failures, number
        return before

    wait_for_workers(client)
    before = client.run_on_scheduler(set_allowed, 0)
    try:
        with joblib.parallel_config("dask"), pytest.raises(HostError, match="workers of the dask cluster ended"):
            list(parallel.choose_workers().map(end, None, range(4)))
    finally:
        client.run_on_scheduler(set_allowed, before)


@pytest.mark.parametrize(
    ("found", "message"),
    [("0.9", "has unperturbed 0.9, but this process"), (None, "is not installed on the host of dask worker")],
)
def test_workers_of_dask_without_this_version_are_refused_by_name(client, found, message):
    def pretend(version):
        from importlib import metadata

        def instead(name):
            if version is None:
                raise metadata.PackageNotFoundError(name)
            return version

        if version == "as it is":
            metadata.version = metadata.kept
        else:
            metadata.kept, metadata.version = getattr(metadata, "kept", metadata.version), instead

    wait_for_workers(client)
    client.run(pretend, found)
    try:
        with joblib.parallel_config("dask"), pytest.raises(HostError, match=message):
            list(parallel.choose_workers().map(nested, None, [1]))
    finally:
        client.run(pretend, "as it is")


def test_a_packed_object_comes_back_read_only():
    rng = np.random.default_rng(5)
    arrays = {"rows": rng.normal(size=(3, 5)), "codes": np.arange(7, dtype=np.int32), "none": np.empty(0)}
    value = {"name": ("a", 1), **arrays}
    packed = parallel.pack(value)
    odd = np.zeros(len(packed) + 1, np.uint8)[1:]  # as it comes off a network
    odd[:] = packed
    for one in (packed, odd):
        back = parallel.unpack(one)
        assert back["name"] == value["name"]
        for name in arrays:
            assert np.array_equal(back[name], value[name])
            assert back[name].dtype == value[name].dtype
            assert back[name].flags.aligned
            assert not back[name].flags.writeable
