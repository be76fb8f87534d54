# The words a newcomer types. `make demo` and `make test` need Python 3.11 or later and make alone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

# The suite starts hundreds of Pythons; without bytecode each would compile the package again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: setup demo test check counterparts soak bench clean

setup: $(READY)

$(READY): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("orbitmq needs Python 3.11 or later; name one: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip --quiet --disable-pip-version-check install -r requirements/dev.lock
	$(BIN)/python -m pip --quiet --disable-pip-version-check install --no-deps --editable .
	touch $(READY)

demo: setup
	$(BIN)/orbitmq demo

# Three at a time on two cores, since many tests wait for processes; which of them stay together is
# decided in tests/groups.py.
test: setup
	$(BIN)/python -m pytest -n 3 --dist loadgroup --no-loadscope-reorder tests

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_architecture.py tests/test_docs.py tests/test_reference_docs.py
	$(BIN)/python -m pytest -q --doctest-modules src

counterparts: setup
	$(BIN)/python -m tests.interop.counterparts

soak: setup
	$(BIN)/python -m bench.soak

# FULL=1 goes up to ten million messages: an hour or more, and 16 GB below TMPDIR.
bench: setup
	$(BIN)/python -m bench.codec
	$(BIN)/python -m bench.append
	$(BIN)/python -m bench.flush
	$(BIN)/python -m bench.recover
	$(BIN)/python -m bench.scan
	$(BIN)/python -m bench.health
	$(BIN)/python -m bench.growth $(if $(FULL),--full)
	$(BIN)/python -m bench.broker
	$(BIN)/python -m bench.send $(if $(FULL),--full)
	$(BIN)/python -m bench.consume
	$(BIN)/python -m bench.spark $(if $(FULL),--full)

clean:
	rm -rf .venv .counterparts .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
