from pathlib import Path

import pytest

ASSETS = Path(__file__).parents[2] / "assets" / "sample"


@pytest.fixture
def assets() -> Path:
    return ASSETS


@pytest.fixture(params=["sample-Q8_0.gguf", "hf", "mlx-4bit"])
def sample(request: pytest.FixtureRequest) -> Path:
    """The sample model in each container."""
    return ASSETS / str(request.param)
