"""Allocation of producer id blocks."""

from kraft_core.protocol import messages as m
from kraft_core.protocol.errors import ErrorCode
from kraft_core.protocol.metadata_records import ProducerIdsRecord
from tests.controller.active_controller import ActiveController


def allocate(active: ActiveController, broker_id: int = 1, shift: int = 0) -> m.AllocateProducerIdsRequest:
    epoch = active.tip.cluster.brokers[broker_id].epoch + shift
    return m.AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch)


def test_blocks_of_1000_follow_one_another_and_never_overlap() -> None:
    active = ActiveController()
    active.start_broker(1)
    ids = [active.send(allocate(active)) for _ in range(3)]
    active.commit()
    answers = [active.answers[request_id] for request_id in ids]
    assert [(each.producer_id_start, each.producer_id_len) for each in answers] == [
        (0, 1000),
        (1000, 1000),
        (2000, 1000),
    ]
    active.lose_leadership()
    active.win_leadership()
    assert active.ask(allocate(active)).producer_id_start == 3000


def test_an_uncommitted_block_is_allocated_again() -> None:
    active = ActiveController()
    active.start_broker(1)
    lost = active.send(allocate(active))
    active.lose_leadership()
    assert active.answers[lost].error_code == ErrorCode.NOT_CONTROLLER
    active.win_leadership()
    assert active.ask(allocate(active)).producer_id_start == 0


def test_a_stale_broker_gets_no_block() -> None:
    active = ActiveController()
    active.start_broker(1)
    assert active.ask(allocate(active, shift=1)).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert not any(isinstance(record, ProducerIdsRecord) for record in active.log())


def test_producer_ids_do_not_exceed_int64() -> None:
    active = ActiveController()
    active.start_broker(1)
    active.writer.append([ProducerIdsRecord(next_producer_id=2**63 - 500)])
    active.commit()
    assert active.ask(allocate(active)).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert not active.controller.wants_resign
