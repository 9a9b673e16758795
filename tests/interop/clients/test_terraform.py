"""Confluent's Terraform provider applies, plans nothing more, finds what others change, and destroys.

No registry has the provider's module with those it needs, so it is built by hand from its repository;
`CONCLAVE_TERRAFORM_PROVIDER` names the folder of the binary.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.product import Product, running_product

PROVIDER = os.environ.get("CONCLAVE_TERRAFORM_PROVIDER", "")
CONFIG = """
terraform {
  required_providers { confluent = { source = "confluentinc/confluent" } }
}
variable "secret" {}
provider "confluent" {
  kafka_id            = "CLUSTER"
  kafka_rest_endpoint = "URL"
  kafka_api_key       = "terraform"
  kafka_api_secret    = var.secret
}
resource "confluent_kafka_topic" "orders" {
  topic_name       = "orders"
  partitions_count = 3
  config           = { "cleanup.policy" = "compact", "retention.ms" = "3600000" }
}
"""
EMPTY, CHANGES = 0, 2
"""Exit codes of `terraform plan -detailed-exitcode`."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not PROVIDER or shutil.which("terraform") is None, reason="needs terraform and the provider"),
]


class Terraform:
    """A folder with a configuration, and its commands."""

    def __init__(self, folder: Path, product: Product) -> None:
        """Make a token for the provider."""
        status, token = product.call("POST", "/v3/tokens", {"name": "terraform", "role": "editor"})
        assert status == 201, token
        self.folder = folder
        settings = folder / "terraformrc"
        overrides = f'dev_overrides {{ "confluentinc/confluent" = "{PROVIDER}" }}'
        settings.write_text(f"provider_installation {{\n  {overrides}\n  direct {{}}\n}}\n")
        self.environment = {**os.environ, "TF_CLI_CONFIG_FILE": str(settings), "TF_VAR_secret": token["token"]}

    def write(self, text: str) -> None:
        """Make this the configuration."""
        (self.folder / "main.tf").write_text(text)

    def run(self, *arguments: str) -> int:
        """Run a command and return its exit code."""
        command = ["terraform", *arguments, "-no-color"]
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        assert done.returncode in {EMPTY, CHANGES}, done.stdout + done.stderr
        return done.returncode

    def plan(self) -> int:
        """Return EMPTY or CHANGES."""
        return self.run("plan", "-detailed-exitcode")


def config_of(product: Product, name: str) -> str:
    return str(product.call("GET", f"{product.cluster_path}/topics/orders/configs/{name}")[1]["value"])


def test_terraform_manages_a_topic(tmp_path: Path) -> None:
    folder = tmp_path / "terraform"
    folder.mkdir()
    with running_product(tmp_path) as product:
        terraform = Terraform(folder, product)
        text = CONFIG.replace("CLUSTER", product.cluster_path.rpartition("/")[2]).replace("URL", product.url)
        terraform.write(text)
        assert terraform.run("apply", "-auto-approve") == EMPTY
        assert config_of(product, "retention.ms") == "3600000"
        assert terraform.plan() == EMPTY
        terraform.write(text.replace("partitions_count = 3", "partitions_count = 5").replace("3600000", "7200000"))
        assert terraform.plan() == CHANGES
        assert terraform.run("apply", "-auto-approve") == EMPTY
        assert config_of(product, "retention.ms") == "7200000"
        topic = product.call("GET", f"{product.cluster_path}/topics/orders")[1]
        assert topic["partitions_count"] == 5, json.dumps(topic)
        path = f"{product.cluster_path}/topics/orders/configs/retention.ms"
        assert product.call("PUT", path, {"value": "1"})[0] == 204
        assert terraform.plan() == CHANGES
        assert terraform.run("apply", "-auto-approve") == EMPTY
        assert config_of(product, "retention.ms") == "7200000"
        assert terraform.run("destroy", "-auto-approve") == EMPTY
        assert product.call("GET", f"{product.cluster_path}/topics/orders")[0] == 404
