# The words a newcomer types. `make demo` and `make test` need Python 3.11 or later and make alone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# The suite starts hundreds of Pythons; without bytecode each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test check reference site counterparts speed simulate soak bench bench-quick bench-check bench-parts clean

setup: $(READY)

$(READY): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("orbitmq needs Python 3.11 or later; name one: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	@echo 'Installing into .venv, once: this takes some minutes.'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip --quiet --disable-pip-version-check install -r requirements/dev.lock
	$(BIN)/python -m pip --quiet --disable-pip-version-check install --no-deps --editable .
	touch $(READY)

demo: setup
	$(BIN)/orbitmq demo

# Three at a time on two cores, since many tests wait for processes; which of them stay together is
# decided in tests/groups.py. A process that dies ends the run: with a new one it would wait for ever.
test: setup
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0 tests

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docs.py tests/test_reference_docs.py \
		tests/test_guides.py tests/test_first_steps.py
	$(BIN)/python -m pytest -q --doctest-modules src tools
	$(BIN)/python -m bench.report.docs --check
	$(BIN)/python -m tools.reference --check

# The pages of docs/ that are made from the code: docs/api/ and docs/java-keys.md.
reference: setup
	$(BIN)/python -m tools.reference

# The documents as HTML in build/site, by mkdocs in an environment of its own.
site: build/site-builder/.ready
	build/site-builder/bin/python -m tools.docs_site

build/site-builder/.ready: requirements/site.lock
	$(PYTHON) -m venv --clear build/site-builder
	build/site-builder/bin/python -m pip --quiet --disable-pip-version-check install -r requirements/site.lock
	touch $@

counterparts: setup
	$(BIN)/python -m tests.interop.counterparts

# The compiled kernel, which is optional: needs Rust (cargo), and loads crates when first built.
speed: setup
	@command -v cargo >/dev/null || { echo "make speed needs Rust: cargo is not on the PATH"; exit 1; }
	$(BIN)/python -m pip --quiet --disable-pip-version-check install --force-reinstall ./speed

# Whole clusters on virtual time, with failures: make simulate SEEDS=100 FIRST=0; SEEDS=1 shows one.
simulate: setup
	$(BIN)/python -m orbitmq.testing.simulation --seeds $(or $(SEEDS),100) --first $(or $(FIRST),0)

# All parts, or some: make soak PARTS="store tests/spark/test_kills.py".
soak: setup
	$(BIN)/python -m bench.soak $(PARTS)

# Everything beside Java: about an hour, and 8 GB below TMPDIR. Writes bench/results/latest.json, its
# page, docs/performance.md and the figures in the README.
bench: setup
	$(BIN)/python -m bench

# The same in less than five minutes, with smaller sizes; writes bench/results/quick.json and its page.
bench-quick: setup
	$(BIN)/python -m bench --quick

# Fails if a quick run is worse than the committed figures; bench/report/compare.py has the rule.
bench-check: setup
	$(BIN)/python -m bench --check

# Single parts, and Spark. FULL=1 lets Spark read up to ten million messages: an hour or more.
bench-parts: setup
	$(BIN)/python -m bench.codec
	$(BIN)/python -m bench.append
	$(BIN)/python -m bench.recover
	$(BIN)/python -m bench.scan
	$(BIN)/python -m bench.health
	$(BIN)/python -m bench.spark $(if $(FULL),--full)
	$(BIN)/python -m bench.report.docs

clean:
	rm -rf speed/target .venv .counterparts .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
