# Two commands for everybody: make quickstart, make test. Each sets up what it needs.

python = .venv/bin/python
campaign ?= campaigns/quickstart
MINUTES ?= 60

.PHONY: help setup quickstart test test-pmu attack kernels check docs docs-pictures dev bench validate validate-processor clean

help:
	@echo 'make quickstart   set up, then measure a real program and show which metrics measuring it spoilt'
	@echo 'make test         set up, then run the tests'
	@echo 'make setup        only set up: the command is .venv/bin/unperturbed'
	@echo 'make test-pmu     run the samplers on an emulated machine with a PMU'
	@echo 'make attack       kill, fuzz and starve everything for so many minutes: make attack MINUTES=60'
	@echo 'make check        ruff, clang-format, mypy strict, wheel and sdist, documentation'
	@echo 'make docs-pictures  draw the pictures of the documentation again'
	@echo 'make validate     long evidence, written to docs/evidence (hours)'
	@echo 'make validate-processor  evidence that needs counters of a processor (2.5 hours, can be stopped and resumed)'
	@echo 'make dev          set up for working on the code'

setup:
	@tools/setup.sh run

quickstart: setup
	@tools/quickstart.sh $(campaign)

# Tests of real processes can fail on a busy host: they get a second attempt, and the first failure is printed. Tests of arithmetic get none.
second_attempt = --reruns 1 --max-suite-reruns 5 --rerun-exclude-path tests/analysis --rerun-show-tracebacks

test: kernels
	$(python) -m pytest -m "not long" -n 3 --dist loadfile --no-loadscope-reorder $(second_attempt)  # tests wait a third of their time: three share two processors well

test-pmu:
	@tools/setup.sh pmu
	$(python) -m pytest -n 0 tests/pmu

attack:
	@tools/setup.sh attack
	$(python) -m tests.attacks --minutes $(MINUTES)

kernels:  # compiled once: else the processes of the tests compile them side by side
	@tools/setup.sh test
	.venv/bin/unperturbed cache --quiet warm

check:
	@tools/setup.sh test
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	.venv/bin/clang-format --dry-run --Werror $$(find analysis collectors experiments harness instrument tests -name '*.[ch]')  # an unpacked sdist has no git
	$(python) tools/checks/docstrings.py
	$(python) tools/checks/words.py
	$(python) tools/checks/prose.py
	$(python) tools/checks/evidence.py
	$(python) tools/checks/distribution.py
	$(python) -m mypy --strict -p unperturbed -p experiments
	$(python) -m tools.site
	$(python) -m mkdocs build --strict --quiet

docs: check

docs-pictures:
	@tools/setup.sh test
	@[ -f campaigns/quickstart/report.html ] || tools/quickstart.sh campaigns/quickstart
	@[ -f campaigns/sizes/table.csv ] || .venv/bin/unperturbed run experiments/quickstart/sizes.yaml --campaign campaigns/sizes
	$(python) -m docs.tutorials.pictures campaigns
	$(python) -m docs.tutorials.pages
	$(python) -m docs.tutorials.samples
	$(python) -m docs.tutorials.choosing

bench:
	@tools/setup.sh bench
	$(python) -m tests.benchmarks.harness_overhead
	$(python) tests/benchmarks/sampler_instructions.py
	$(python) tests/benchmarks/sampler_overhead.py
	$(python) tests/benchmarks/sampler_intervals.py
	$(python) tests/benchmarks/simulation_slowdown.py
	$(python) tests/benchmarks/sampler_children.py
	$(python) tests/benchmarks/instrument_instructions.py
	$(python) tests/benchmarks/instrument_builds.py
	$(python) tests/benchmarks/instrument_patching.py
	$(python) tests/benchmarks/instrument_interval_ends.py
	$(python) -m tests.benchmarks.instrument_jvm
	$(python) tests/benchmarks/instrument_probes.py
	$(python) tests/benchmarks/instrument_preload.py
	$(python) tests/benchmarks/instrument_python.py
	$(python) tests/benchmarks/perturbation_checks.py
	$(python) -m tests.benchmarks.large_campaign campaigns/large
	$(python) -m tests.benchmarks.nodes_on_slurm
	$(python) tests/benchmarks/export_speed.py
	$(python) tests/benchmarks/import_speed.py
	.venv-peers/bin/python tests/benchmarks/alignment_kernels.py
	.venv-peers/bin/python tests/benchmarks/event_reading.py
	.venv-peers/bin/python tests/benchmarks/event_distances.py
	$(python) tests/benchmarks/event_sizes.py
	$(python) tests/benchmarks/structure.py
	$(python) tests/benchmarks/causal_regression.py
	.venv-peers/bin/python tests/benchmarks/causal_learning.py

dev:
	@tools/setup.sh test

validate:
	@tools/setup.sh test
	$(python) -m tests.collectors.runtime.kill_validation --kills 1000 --seed 1
	$(python) docs/evidence/own_perturbation.py --runs 20 --seed 1
	@tools/setup.sh pmu
	$(python) docs/evidence/own_perturbation_pmu.py --runs 12 --seed 1
	$(python) docs/evidence/passes_pmu.py --seed 1
	@tools/setup.sh machines
	$(python) -m pytest -n 0 tests/pmu -m long
	$(python) docs/evidence/machines.py
	$(python) docs/evidence/calibration.py --campaigns 1000 --seed 1
	$(python) docs/evidence/totals.py --campaigns 4000 --seed 1
	$(python) -m pytest -n 0 -m long
	$(python) docs/evidence/nodes.py --campaigns 4000 --families 1000 --seed 1
	$(python) docs/evidence/nodes.py --wider 300 --seed 2
	$(python) docs/evidence/held_back.py --draws 10 --seed 1
	$(python) docs/evidence/quickstart.py --campaigns 20 --seed 1 --busy 4
	$(python) docs/evidence/work_intervals.py
	$(python) docs/evidence/partition.py --trials 1000 --seed 1
	$(python) docs/evidence/partition_nodes.py --trials 30 --seed 1
	$(python) docs/evidence/warm_up.py
	$(python) docs/evidence/threads.py
	$(python) -m experiments.calibration.doses
	$(python) -m experiments.perturbation.evaluate
	$(python) -m experiments.perturbation.interaction
	$(python) -m experiments.perturbation.layouts
	$(python) -m experiments.perturbation.one_build
	$(python) -m experiments.perturbation.one_build --series
	$(python) -m experiments.perturbation.within
	$(python) -m experiments.perturbation.one_correlation
	$(python) -m experiments.perturbation.doses
	$(python) -m experiments.perturbation.partition_builds
	$(python) -m experiments.perturbation.partition_builds --attempts --programs network glpk
	$(python) -m experiments.multiplexing.evaluate
	$(python) -m experiments.multiplexing.together
	$(python) -m experiments.multiplexing.across
	$(python) -m experiments.choice.evaluate
	$(python) -m experiments.alignment.evaluate --pairs 9
	$(python) -m experiments.alignment.unaligned
	$(python) -m experiments.alignment.by_events
	$(python) -m experiments.alignment.moved --pairs 40
	@tools/setup.sh attack
	$(python) -m tests.attacks --minutes 480 --seed 1 --write docs/evidence/attacks.md
	@tools/setup.sh media
	$(python) -m experiments.diagnosis.record campaigns/diagnosis
	$(python) -m experiments.diagnosis.evaluate
	$(python) -m experiments.diagnosis.cases.ordering
	$(python) -m experiments.diagnosis.cases.theta
	$(python) -m experiments.diagnosis.cases.pictures
	$(python) -m experiments.diagnosis.cases.kernel
	$(python) -m experiments.structure.evaluate
	$(python) -m experiments.structure.methods
	$(python) -m experiments.structure.second_run --pairs 40
	$(python) -m experiments.structure.accesses --frames 88
	$(python) -m experiments.causal.evaluate
	@echo 'by hand: experiments.gate (needs a clone of zlib), experiments.profilers (needs heaptrack and uftrace)'
	@echo 'on a host whose processor counts, also: make validate-processor'

validate-processor:
	@tools/setup.sh bench
	$(python) -m experiments.processor

clean:
	rm -rf .venv .venv-peers build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
