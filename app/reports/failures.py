"""Causes of a failed report job, as a code and a sentence.

The job writes `failure.json` into its output folder when an exception ends it. When it was killed, its exit code is the
evidence.

Codes: MASTER_UNREACHABLE (no Spark master or Connect server answers at the address), PYSPARK_MISSING,
JAVA_GATEWAY_EXITED (Spark's JVM did not start), JVM_KILLED (the JVM ended during the run), DRIVER_KILLED (the job
itself was killed), OUT_OF_MEMORY, OUT_OF_DISK, BAD_SNAPSHOT, FILES_NOT_SHARED (Spark's machines do not see the
report's files), JOB_FAILED (any other failure).
"""

import contextlib
import errno
import json
import os
import re
import signal
from pathlib import Path
from typing import Final

from app.texts import phrase

FULL_DISK: Final = os.strerror(errno.ENOSPC)
FAILURE_FILE: Final = "failure.json"
MEMORY_ADVICE: Final = str(
    phrase("the usual cause is too little memory: see spark_memory and the memory of the machine")
)

UNSEEN: Final = re.compile(
    r"PATH_NOT_FOUND|FILE_NOT_EXIST|FileNotFoundException: File file:|AccessControlException"
    r"|Mkdirs failed to create file:"
)
"""What Spark says of a file that is not there, or not for its user."""
NOT_SHARED: Final = str(
    phrase(
        "Spark's machines must see the reports folder under the same path and as a user who may use it, "
        "or set spark_files to a URL"
    )
)


class MasterUnreachableError(Exception):
    """Spark's master or Connect server does not answer. The text has its address and the reason."""


class FilesNotSharedError(Exception):
    """Spark's machines do not read and write the same files as this one. The text says which file shows it."""


class BadSnapshotError(Exception):
    """The folder is not a complete snapshot. The text says what is missing or wrong."""


def reason_of(error: BaseException) -> tuple[str, str]:
    """Return the code and the sentence for an exception of the job."""
    name = type(error).__name__
    if isinstance(error, BadSnapshotError):
        return "BAD_SNAPSHOT", str(error)
    if isinstance(error, MasterUnreachableError):
        return "MASTER_UNREACHABLE", str(error)
    if isinstance(error, ImportError):
        return "PYSPARK_MISSING", str(
            phrase("PySpark cannot be loaded (%(reason)s): pip install 'conclave[spark]'", reason=str(error))
        )
    if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return "OUT_OF_DISK", str(error)
    if isinstance(error, MemoryError):
        return "OUT_OF_MEMORY", str(
            phrase("The report job had too little memory (%(reason)s).", reason=str(error) or name)
        )
    if getattr(error, "getCondition", lambda: None)() == "JAVA_GATEWAY_EXITED":
        return "JAVA_GATEWAY_EXITED", str(
            phrase("Spark's JVM did not start; the log has its output (%(reason)s)", reason=str(error))
        )
    if name == "Py4JNetworkError" or isinstance(error, ConnectionError | EOFError):
        return "JVM_KILLED", str(
            phrase("Spark's JVM ended during the report (%(name)s); %(advice)s.", name=name, advice=MEMORY_ADVICE)
        )
    text = str(error)  # the JVM's exceptions arrive as text, with the names of their Java classes
    if "Cannot call methods on a stopped SparkContext" in text:  # while starting: the masters have not answered
        return "MASTER_UNREACHABLE", str(
            phrase("Spark's master has not accepted the report: see spark_master and the log")
        )
    if isinstance(error, FilesNotSharedError) or UNSEEN.search(text):
        return "FILES_NOT_SHARED", f"{NOT_SHARED} ({_first_line(text)})"
    if "java.lang.OutOfMemoryError" in text:
        return "OUT_OF_MEMORY", str(
            phrase("Spark's JVM had too little memory: see spark_memory (%(reason)s)", reason=_first_line(text))
        )
    if FULL_DISK in text:
        return "OUT_OF_DISK", _first_line(text)
    return "JOB_FAILED", str(phrase("The Spark job failed: %(name)s: %(reason)s", name=name, reason=_first_line(text)))


def write_failure(out: Path, error: BaseException) -> None:
    """Write `failure.json` for the web process."""
    reason, text = reason_of(error)
    with contextlib.suppress(OSError):  # the disk may be full: the web process then uses the exit code
        out.mkdir(parents=True, exist_ok=True)
        (out / FAILURE_FILE).write_text(json.dumps({"reason": reason, "error": text}))


def failure_of(code: int, out: Path, printed: str) -> tuple[str, str]:
    """Return the code and the sentence for a job with exit code `code` (negative: a signal) and this output."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        found = json.loads((out / FAILURE_FILE).read_text())
        return str(found["reason"]), str(found["error"])
    if code < 0:
        name = signal.Signals(-code).name
        return "DRIVER_KILLED", str(
            phrase("The report job was killed by %(name)s; %(advice)s.", name=name, advice=MEMORY_ADVICE)
        )
    if FULL_DISK in printed:  # failure.json could not be written either
        return "OUT_OF_DISK", str(
            phrase("The disk of the report's folder or of Spark's is full: %(line)s", line=_last_line(printed))
        )
    return "JOB_FAILED", str(
        phrase("The Spark job ended with code %(code)s: %(line)s", code=code, line=_last_line(printed))
    )


def _first_line(text: str) -> str:
    return text.strip().splitlines()[0][:500] if text.strip() else "no message"


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:500] if lines else "it printed nothing"
