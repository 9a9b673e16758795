"""An S3-compatible store (Adobe's S3Mock) and Hadoop's connector for it, from Maven, as Apache Kafka's jars are."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyarrow import fs as arrow_fs

from tests.interop.kafka import wait_until

HADOOP = "3.5.0"
"""The version of Hadoop in PySpark, whose connector and which versions of AWS's libraries go with it."""
AWS = "2.35.4"
POM = f"""<project><modelVersion>4.0.0</modelVersion>
<groupId>local</groupId><artifactId>s3</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.hadoop</groupId><artifactId>hadoop-aws</artifactId><version>{HADOOP}</version>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
<dependency><groupId>software.amazon.s3.analyticsaccelerator</groupId><artifactId>analyticsaccelerator-s3</artifactId>
<version>1.3.1</version><exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>
</dependency>
%s
<dependency><groupId>com.adobe.testing</groupId><artifactId>s3mock</artifactId><version>5.2.0</version>
<classifier>exec</classifier>
<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>
</dependencies></project>
"""
AWS_PART = """<dependency><groupId>software.amazon.awssdk</groupId><artifactId>{}</artifactId><version>{}</version>
<exclusions><exclusion><groupId>io.netty</groupId><artifactId>*</artifactId></exclusion>
<exclusion><groupId>org.slf4j</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"""
AWS_PARTS = ("s3", "s3-transfer-manager", "sts", "apache-client", "netty-nio-client")
KEYS = {"access.key": "conclave", "secret.key": "conclave-secret"}


def jars() -> Path:
    """Return the folder of the jars, after fetching them. Without Maven, skip the test, or fail it in CI."""
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "conclave-s3" / f"{HADOOP}-{AWS}"
    if not (home / "done").exists():
        if shutil.which("mvn") is None:
            if os.environ.get("CI") == "true":
                pytest.fail("Maven is missing")
            pytest.skip("Maven is missing (apt install maven)")
        home.mkdir(parents=True, exist_ok=True)
        (home / "pom.xml").write_text(POM % "\n".join(AWS_PART.format(part, AWS) for part in AWS_PARTS))
        command = ["mvn", "-q", "-B", "-ntp", "-f", str(home / "pom.xml"), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={home / 'libs'}"], check=True)
        next((home / "libs").glob("s3mock-*.jar")).rename(home / "s3mock.jar")
        (home / "done").touch()
    return home


@contextmanager
def running_store(folder: Path, bucket: str) -> Iterator[dict[str, str]]:
    """Run a store with one empty bucket, and return the settings of Spark by which it is reached."""
    program = jars() / "s3mock.jar"
    log = folder / "s3.log"
    options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(program)]
    options += ["--server.address=127.0.0.1", "--server.port=0", "--com.adobe.testing.s3mock.httpPort=0"]
    with (
        log.open("wb") as output,
        subprocess.Popen(["java", *options], stdout=output, stderr=subprocess.STDOUT, cwd=folder) as process,
    ):
        try:
            pattern = r"Tomcat started on ports? .*?(\d+) \(http\)"
            found = wait_until(lambda: re.search(pattern, log.read_text(errors="replace")), 120, "the store's start")
            address = f"127.0.0.1:{found[1]}"
            client = arrow_fs.S3FileSystem(
                access_key=KEYS["access.key"],
                secret_key=KEYS["secret.key"],
                endpoint_override=address,
                scheme="http",
                region="us-east-1",
                allow_bucket_creation=True,
            )
            client.create_dir(bucket)
            settings = {**KEYS, "endpoint": f"http://{address}", "path.style.access": "true"}
            yield {f"spark.hadoop.fs.s3a.{name}": value for name, value in settings.items()}
        finally:
            process.terminate()
