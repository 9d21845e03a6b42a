"""The HTTP service: one route table gives the router, the rights, the OpenAPI document and the tests."""
