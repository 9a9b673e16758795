"""One Spark session for the tests of a module."""

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.reports.export import export_image
from app.reports.java import JavaMissingError, find_java
from app.reports.job import Progress, build, read_manifest, spark_session
from kraft_core.image.metadata_image import MetadataImage
from tests.app.reports.clusters import CLUSTER_ID

Report = Callable[[MetadataImage, Path], dict[str, Any]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Report]:
    """Compute the report of an image with a real Spark: `report(image, folder)` -> the body."""
    try:
        java = find_java(tmp_path_factory.mktemp("java"))
    except JavaMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("JAVA_HOME", str(java.home))
        with spark_session("local[2]", "1g") as spark:

            def make(image: MetadataImage, folder: Path) -> dict[str, Any]:
                export_image(image, CLUSTER_ID, folder / "snapshot")
                out = folder / "out"
                out.mkdir()
                with Progress(out) as progress:
                    snapshot = folder / "snapshot"
                    return build(spark, read_manifest(snapshot), snapshot, out, progress)

            yield make
    gc.collect()  # Py4J's unclosed sockets are reported here, where the warning is ignored, and not in a later test
