"""`conclave.kafka`: every public name is there, and costs only what it needs."""

import subprocess
import sys

import conclave.kafka


def test_every_public_name_can_be_imported() -> None:
    for name in conclave.kafka.__all__:
        assert getattr(conclave.kafka, name).__name__ == name
    assert sorted(conclave.kafka.__all__) == sorted(conclave.kafka._MODULES)


def test_a_client_is_imported_when_it_is_used() -> None:
    program = """
import sys
import conclave.kafka
assert not any(name.startswith("kraft_core") for name in sys.modules)
from conclave.kafka import KafkaProducer
assert "kraft_core.clients.producer.kafka_producer" in sys.modules
assert "kraft_core.clients.admin.kafka_admin_client" not in sys.modules
assert conclave.kafka.KafkaProducer is KafkaProducer
try:
    conclave.kafka.Consumer
except AttributeError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "module 'conclave.kafka' has no attribute 'Consumer'\n"
