"""A store is verified by workers, each of which reads some of its chunks against their checksums."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from uuid import uuid4

import numpy as np

from blocksvm.base.errors import InputError
from blocksvm.cluster.chunk_parts import MOST_UNDER_WAY, cut, part_size
from blocksvm.cluster.cluster import Cluster
from blocksvm.cluster.dispatcher import Dispatcher
from blocksvm.cluster.job import ChunksPart, Context, Job
from blocksvm.sources.source import largest_chunk_bytes
from blocksvm.store.reader import Store


@dataclass(frozen=True)
class VerifyingJob(Job):
    def make_context(self, store: Store) -> Context:
        return VerifyingContext(store)


@dataclass(frozen=True)
class Verified:
    """fault: the sentence of the first damage, '' where there is none."""

    number: int
    fault: str
    seconds: float
    n_bytes: int = 0


class VerifyingContext(Context):
    def answer(self, part: ChunksPart) -> Verified:
        began, fault = time.perf_counter(), ""
        try:
            for _ in self.store.verify_chunks(part.chunks.tolist()):
                pass
        except InputError as error:
            fault = str(error)
        return Verified(part.number, fault, time.perf_counter() - began)


def verified_by(cluster: Cluster, store: Store) -> Iterator[int]:
    """``Store.verify``, by workers; how many chunks have been read.  InputError names the first damage."""
    sizes = store.chunks.nnz + store.chunks.n_rows
    parts = cut(np.arange(len(sizes)), sizes, part_size(sizes))
    n_bytes = 2 * largest_chunk_bytes(store) + store.working_bytes()
    job = VerifyingJob(uuid4().hex, cluster.stores(store.path), store.fingerprint, n_bytes, 1)
    done = 0
    with Dispatcher(cluster.workers, job, cluster.timeout, MOST_UNDER_WAY, cluster.say) as dispatcher:
        dispatcher.want(partial(ChunksPart, chunks=some, size=int(sizes[some].sum())) for some in parts)
        for some in parts:
            if fault := dispatcher.take().fault:
                raise InputError(fault)
            done += len(some)
            yield done
    store.verify_tables()
