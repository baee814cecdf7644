"""A server of a folder's files over HTTP, held back to the latency and the rate of a network: for measurements.

python -m experiments.network FOLDER PORT SECONDS BYTES_A_SECOND

It answers requests for ranges, each after SECONDS, and all of them share BYTES_A_SECOND.  GET /served tells how many
requests and bytes there were, and the most requests at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys

PIECE = 1 << 17


class Network:
    def __init__(self, folder: str, latency: float, rate: float):
        self.folder, self.latency, self.rate = folder, latency, rate
        self.free = 0.0
        self.requests = self.sent = self.now = self.most = 0

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                await self.answer(head.decode(), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        method, name, _ = head.partition("\r\n")[0].split()
        if name == "/served":
            body = json.dumps({"requests": self.requests, "bytes": self.sent, "most": self.most}).encode()
            self.requests = self.sent = self.most = 0
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
            return
        self.now += 1
        self.requests += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.latency)
            path = self.folder + name
            if not os.path.isfile(path):
                writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            status = os.stat(path)
            first, last = re.search(r"(?i)range: bytes=(\d+)-(\d+)", head).groups()
            start, stop = int(first), min(status.st_size, int(last) + 1)
            writer.write(
                f"HTTP/1.1 206 Partial Content\r\nContent-Length: {stop - start}\r\nETag: \"{status.st_mtime_ns}\"\r\n"
                f"Content-Range: bytes {start}-{stop - 1}/{status.st_size}\r\n"
                "Last-Modified: Thu, 26 Nov 2026 10:00:00 GMT\r\n\r\n".encode()
            )  # fmt: skip
            with open(path, "rb", buffering=0) as file:
                while start < stop:
                    n = min(PIECE, stop - start)
                    now = asyncio.get_running_loop().time()
                    self.free = max(self.free, now - 0.005) + n / self.rate
                    if self.free > now + 0.001:
                        await asyncio.sleep(self.free - now)
                    writer.write(os.pread(file.fileno(), n, start))
                    await writer.drain()
                    start += n
                    self.sent += n
        finally:
            self.now -= 1


async def serve(folder: str, port: int, latency: float, rate: float) -> None:
    server = await asyncio.start_server(Network(folder, latency, rate).connected, "127.0.0.1", port, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
