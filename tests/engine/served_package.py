"""The component package as a process that the engine attaches to. The first line on stdout is its port."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import empty_pb2
from pulumi.provider.server import ProviderServicer
from pulumi.runtime.proto import provider_pb2, provider_pb2_grpc

from package.provider import PackageProvider
from tests.engine.cli import ROOT
from tests.engine.provider import MESSAGE_LIMIT


class Attached(ProviderServicer):
    """The SDK's server has no methods for an engine that attaches to a running provider."""

    async def Attach(self, request: Any, context: Any) -> Any:  # noqa: N802 - gRPC's name, as below
        self.engine_address = request.address
        return empty_pb2.Empty()

    async def CheckConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        return provider_pb2.CheckResponse(inputs=request.news)

    async def DiffConfig(self, request: Any, context: Any) -> Any:  # noqa: N802
        return provider_pb2.DiffResponse(changes=provider_pb2.DiffResponse.DIFF_NONE)


async def _serve() -> None:
    server = grpc.aio.server(options=MESSAGE_LIMIT)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(Attached(PackageProvider(), [], ""), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await server.wait_for_termination()


@contextmanager
def served() -> Iterator[int]:
    """The port of the running package."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PULUMI")}
    command = [sys.executable, "-m", __name__]
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


if __name__ == "__main__":
    asyncio.run(_serve())
