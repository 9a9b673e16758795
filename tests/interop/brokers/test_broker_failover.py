"""An Apache broker keeps serving when the controller that it uses is killed."""

import time
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop import kafka
from tests.interop.conclave import running_quorum

pytestmark = pytest.mark.interop


def create_through_elections(admin: AdminClient, name: str) -> float:
    """Create a topic through the broker. Return the time it took in seconds, including retries."""
    started = time.monotonic()
    refusals: list[str] = []
    while time.monotonic() - started < kafka.PATIENCE_S:
        try:
            admin.create_topics([NewTopic(name, 1, 1)])[name].result(kafka.PATIENCE_S)
        except KafkaException as error:
            refusals.append(error.args[0].name())
            if refusals[-1] == "TOPIC_ALREADY_EXISTS":
                break
            time.sleep(0.1)
        else:
            break
    else:
        raise AssertionError(f"{name} could not be created: {refusals}")
    return time.monotonic() - started


def test_an_apache_broker_follows_our_controllers_through_two_kills(tmp_path: Path) -> None:
    kafka.require()
    with (
        running_quorum(tmp_path, 3) as quorum,
        kafka.broker(tmp_path / "broker", 101, quorum.bootstrap, quorum.cluster_id) as (process, address),
    ):
        process.wait_for_output("Kafka Server started")
        admin = AdminClient({"bootstrap.servers": address})
        create_through_elections(admin, "before")
        producer = Producer({"bootstrap.servers": address, "acks": "all"})
        failures: list[object] = []
        for kill in range(2):
            leader_id = quorum.wait_for_leader()
            quorum.processes[leader_id].kill()
            for number in range(50):
                producer.produce(
                    "before", value=f"{kill}-{number}", callback=lambda error, _: error and failures.append(error)
                )
            assert producer.flush(kafka.PATIENCE_S) == 0
            took_s = create_through_elections(admin, f"after-{kill}")
            print(f"a topic through the broker {took_s * 1000:.0f} ms after the kill")
            lives = quorum.processes[leader_id].output.count("controller_registered")
            restarted = quorum.start(leader_id)
            kafka.wait_until(
                lambda lives=lives, restarted=restarted: restarted.output.count("controller_registered") > lives,
                kafka.PATIENCE_S,
                "the killed controller is back",
            )
        assert failures == []
        kafka.wait_until(
            lambda: {"before", "after-0", "after-1"} <= set(admin.list_topics(timeout=10).topics),
            kafka.PATIENCE_S,
            "the broker knows all topics",
            not_yet=(KafkaException,),
        )
        assert process.alive
