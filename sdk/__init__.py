"""The generator of `conclave.client`: typed models and methods from the OpenAPI document of the web process."""
