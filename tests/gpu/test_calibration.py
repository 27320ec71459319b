"""Calibration on a real card: after an inspection, as a person's first load does it."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmchat.protocol import Calibrate, Calibrated, Inspect, Inspected
from llmchat.session.process.client import EngineClient

from .test_strategies import used


async def test_every_gpu_is_measured_and_nothing_stays_on_it(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLMCHAT_HOME", str(tmp_path))
    before = used()
    client = EngineClient()
    await client.start()
    try:
        await client.run(Inspect(id=0, path=str(checkpoint), model_id="llama-1b"), Inspected)
        measured = await client.run(Calibrate(id=0), Calibrated)
        assert measured.gpus
        for gpu in measured.gpus:
            assert gpu.read_bandwidth and 5e10 < gpu.read_bandwidth < 1e13
            assert gpu.link_bandwidth and 1e9 < gpu.link_bandwidth < 1e12
            assert gpu.pageable_bandwidth and 1e8 < gpu.pageable_bandwidth < 1e12
            if gpu.managed not in ("coherent", "integrated"):
                assert gpu.pageable_bandwidth < gpu.link_bandwidth
            assert gpu.context and 50 * 2**20 < gpu.context < 2 * 2**30
            assert gpu.matmul and 1e12 < gpu.matmul < 1e16
        assert measured.layer_overhead and 1e-5 < measured.layer_overhead < 1e-2
        assert measured.cpu_layer_overhead and 1e-6 < measured.cpu_layer_overhead < 0.1
        assert used() <= before + 64 * 2**20
    finally:
        await client.close()
