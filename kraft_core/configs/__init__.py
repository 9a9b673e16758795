"""Configs: definitions, effective values and their description. Source: org.apache.kafka.common.config."""
