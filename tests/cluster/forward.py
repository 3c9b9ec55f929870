"""Forwards connections, as ssh -L does: forward.py LISTEN CONNECT, each a path or HOST:PORT."""

import asyncio
import contextlib
import sys


async def connected(place):
    if "/" in place:
        return await asyncio.open_unix_connection(place)
    host, port = place.rsplit(":", 1)
    return await asyncio.open_connection(host, int(port))


async def copy(reader, writer):
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()


async def main(listen, connect):
    async def forward(reader, writer):
        try:
            far_reader, far_writer = await connected(connect)
        except OSError:
            writer.close()
            return
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))

    if "/" in listen:
        server = await asyncio.start_unix_server(forward, listen)
    else:
        host, port = listen.rsplit(":", 1)
        server = await asyncio.start_server(forward, host, int(port))
    await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
