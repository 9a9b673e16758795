"""An empty database for each test, and one Spark session for the tests of a module."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.db.database import Database
from app.db.migrate import upgrade
from app.reports.class_archive import class_archive, using
from app.reports.export import export_image
from app.reports.java import JavaMissingError, find_java
from app.reports.job import build, read_manifest
from app.reports.progress import Progress
from app.reports.session import SessionOptions, spark_session
from app.reports.spark_files import files_for_spark
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Report = Callable[..., dict[str, Any]]


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Database]:
    """An empty database of the web process."""
    made = Database(f"sqlite:///{tmp_path}/test.db")
    upgrade(made.engine)
    yield made
    made.close()


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """A session of a real Spark in a JVM of its own."""
    folder = tmp_path_factory.mktemp("java")
    try:
        java = find_java(folder)
    except JavaMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(java.home))
        environment.setenv("PYSPARK_PYTHON", sys.executable)
        with spark_session(SessionOptions("local[2]"), 0, using(class_archive(folder, java.home))) as session:
            yield session
    gc.collect()  # Py4J's unclosed sockets are reported here, where the warning is ignored, and not in a later test


@pytest.fixture(scope="module")
def report(spark: "SparkSession") -> Report:
    """Compute the report of an image with a real Spark: `report(image, folder)` -> the body."""

    def make(image: MetadataImage, folder: Path, *, in_arrow: bool = False) -> dict[str, Any]:
        export_image(image, CLUSTER_ID, folder / "snapshot")
        out = folder / "out"
        out.mkdir()
        with Progress(out) as progress:
            snapshot = folder / "snapshot"
            with files_for_spark(snapshot, (), out, None, {}) as files:
                return build(spark, read_manifest(snapshot), snapshot, out, progress, files, in_arrow=in_arrow)

    return make
