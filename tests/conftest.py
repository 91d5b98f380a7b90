"""What all tests share: no network, and a device to run on."""

from __future__ import annotations

import os

import pytest

# Set before anything imports the hub client: a test that reaches for the network must fail, not wait.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """The CPU, and where there is one, the GPU as well."""
    name: str = request.param
    if name == "cuda":
        import torch

        if not torch.cuda.is_available():
            pytest.skip("this machine has no CUDA device")
    return name
