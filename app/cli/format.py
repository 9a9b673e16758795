"""`conclave format`: the options of kafka-storage format, applied to a node's settings."""

from pathlib import Path

from kraft_core.raft.voter_set import VoterSet
from kraft_core.server.config.kafka_config import KafkaConfig
from kraft_core.storage.format import (
    FormatError,
    FormatRequest,
    format_storage,
    parse_initial_controllers,
    standalone_voters,
)


def run_format(
    config_path: Path,
    cluster_id: str,
    *,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    release_version: str | None,
    features: list[str],
    scram_arguments: list[str],
    ignore_formatted: bool,
) -> None:
    """Format the log directories of the node, and print one line for each.

    Raises ConfigError and StorageError. Source: StorageTool.runFormatCommand, Kafka 4.3.1.
    """
    config = KafkaConfig.load(config_path)
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        raise FormatError("Only one of --standalone, --initial-controllers and --no-initial-controllers can be given.")
    request = FormatRequest(
        node_id=config.node_id,
        cluster_id=cluster_id,
        log_dirs=config.log_dirs,
        metadata_log_dir=config.metadata_log_dir,
        is_dynamic=not config.controller_quorum_voters,
        has_broker_role=config.is_broker,
        voters=_voters(config, standalone=standalone, initial_controllers=initial_controllers),
        release_version=release_version,
        features=dict(_feature(text) for text in features),
        scram_arguments=scram_arguments,
        ignore_formatted=ignore_formatted,
    )
    is_named = request.voters is not None or no_initial_controllers
    if config.is_controller and request.is_dynamic and not is_named:
        raise FormatError(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the following: "
            "--standalone, --initial-controllers, or --no-initial-controllers."
        )
    format_storage(request, print)


def _voters(config: KafkaConfig, *, standalone: bool, initial_controllers: str | None) -> VoterSet | None:
    if config.controller_quorum_voters and (standalone or initial_controllers is not None):
        raise FormatError(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and specify "
            "controller.quorum.bootstrap.servers instead."
        )
    listener_name = config.controller_listener_names[0]
    if initial_controllers is not None:
        return parse_initial_controllers(initial_controllers, listener_name)
    if not standalone:
        return None
    if not config.is_controller:
        raise FormatError("You can only use --standalone on a controller.")
    listener = config.advertised_controller_listeners[0]
    return standalone_voters(config.node_id, listener.host, listener.port, listener_name)


def _feature(text: str) -> tuple[str, int]:
    name, separator, level = text.partition("=")
    if not separator or not level.strip().isdecimal():
        raise FormatError(f"Can't parse feature=level string {text}: expected NAME=LEVEL")
    return name.strip(), int(level)
