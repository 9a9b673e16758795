"""Answers about controllers."""

from typing import Literal

from app.rest.schemas.base import Answer, ListenerData, ListOf, Related, Resource


class SupportedFeatureData(Answer):
    """The levels of a feature that a node supports."""

    feature_name: str
    lowest_level: int
    highest_level: int


class ControllerData(Resource):
    """A controller; whether it votes is told by the quorum."""

    kind: Literal["KafkaController"]
    controller_id: int
    incarnation_id: str
    is_leader: bool
    listeners: list[ListenerData]
    features: list[SupportedFeatureData]
    quorum: Related


class ControllerDataList(ListOf[ControllerData]):
    """Controllers."""

    kind: Literal["KafkaControllerList"]
