"""Answers about controllers."""

from typing import Literal

from app.rest.schemas.base import Answer, ListenerData, ListOf, Related, Resource


class SupportedFeatureData(Answer):
    """The levels of a feature that a controller supports."""

    feature_name: str
    lowest_level: int
    highest_level: int


class ControllerData(Resource):
    """A registered controller. `quorum` links to the voters."""

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
