import pytest

from orbitmq.errors import MissingExtra
from orbitmq.spark.extra import needing_extra


@pytest.mark.parametrize("package", ["numpy", "py4j", "pyarrow", "pyspark.sql.connect"])
def test_a_missing_package_is_named_with_what_installs_it(package: str) -> None:
    with pytest.raises(MissingExtra, match=r"^a job needs .*: pip install 'orbitmq\[spark\]'$"):
        with needing_extra("a job"):
            raise ModuleNotFoundError(name=package)


@pytest.mark.parametrize("name", ["msgspec", "pysparkling", None])
def test_another_failed_import_is_raised_unchanged(name: str | None) -> None:
    missing = ModuleNotFoundError(name=name)
    with pytest.raises(ModuleNotFoundError) as raised, needing_extra("a job"):
        raise missing
    assert raised.value is missing
