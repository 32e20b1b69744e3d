"""Opening a cluster to ask and change it: searchers in this process, or Ray actors on as many machines as there are."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from kbengine.cluster.compacting import Compacting
from kbengine.cluster.host import ShardHost
from kbengine.cluster.hosting import METHODS, HostSpec, ShardOpener
from kbengine.cluster.knowledge_base import ClusterKnowledgeBase
from kbengine.cluster.routing import Router, RouterOptions, place_of, placed_shards
from kbengine.cluster.searchers import OneProcess
from kbengine.errors import InvalidOptionError, KBError
from kbengine.knowledge_base import KnowledgeBaseOptions
from kbengine.version import __version__
from storage.cluster import Cluster
from storage.cluster_arrangement import Arrangement, newest_arrangement
from storage.cluster_compaction import CompactionLimits

_log = logging.getLogger(__name__)

MAX_SEARCHERS = 64
"""Among how many actors the shards are divided at most unless it is said."""
TEND_S = 5.0
"""How often it is looked whether replicas are where they belong."""


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster is opened, and what searches it.

    Attributes:
        root: Address of its objects.
        catalog: Address of its catalog; None: beside the objects.
        folder: For fetched shards; below it, a folder of its own for each cluster.
        replicas: Ray actors for each shard; 0 searches in this process, without Ray.
        searchers: Among how many actors the shards are divided; None: one each, at most 64.
        ray: Address of the Ray runtime, HOST:PORT; None starts one on this machine.
        router: How requests are routed.
        compaction: Which small shards are put together in the background; None leaves them as they are.
    """

    root: str
    catalog: str | None = None
    folder: Path = Path("kbengine-cluster")
    replicas: int = 0
    searchers: int | None = None
    ray: str | None = None
    router: RouterOptions = field(default_factory=RouterOptions)
    compaction: CompactionLimits | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.replicas <= 100:
            raise InvalidOptionError(f"replicas is {self.replicas}, wanted 0 (no Ray) to 100")
        if self.searchers is not None and not 1 <= self.searchers <= 10_000:
            raise InvalidOptionError(f"searchers is {self.searchers}, wanted 1 to 10,000")
        if not self.replicas and (self.ray is not None or self.searchers is not None):
            raise InvalidOptionError("an address of Ray or a number of searchers is given, and replicas is 0: set it")


def cluster_folder(options: ClusterOptions) -> Path:
    """Return the folder of the cluster that is there, for what belongs to its service; it is made.

    Raises:
        NotAKnowledgeBaseError: there is no cluster.
        CatalogUnavailableError: its catalog does not answer.
    """
    cluster = Cluster.open(options.root, options.catalog)
    try:
        cluster.catalog.newest()
        folder = _state_folder(options, cluster)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return folder
    finally:
        cluster.close()


def open_cluster(options: ClusterOptions, how: KnowledgeBaseOptions | None = None) -> ClusterKnowledgeBase:
    """Open a cluster as a knowledge base; its replicas have their shards open when this returns.

    Raises:
        NotAKnowledgeBaseError: there is no cluster.
        CatalogUnavailableError: its catalog does not answer.
        MissingExtraError: replicas are wanted, and Ray is not installed.
        EncoderMismatchError: the encoder of its name here is another.
    """
    from kbengine.encoders.encoder import Encoder

    how = how or KnowledgeBaseOptions()
    cluster = Cluster.open(options.root, options.catalog)
    try:
        manifest = cluster.manifest()
        # What is added is encoded as what was built, whatever this machine would choose.
        dtype = how.dtype if how.dtype != "auto" else manifest.arithmetic or "auto"
        encoder = Encoder.load(manifest.encoder_name, device=how.device, dtype=dtype)  # type: ignore[arg-type]  # checked there
        router = _router(cluster, options)
    except BaseException:
        cluster.close()
        raise
    try:
        path = _state_folder(options, cluster)
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        knowledge_base = ClusterKnowledgeBase(cluster, router, encoder, path, how)
        knowledge_base.warm_up()
    except BaseException:
        router.close()
        cluster.close()
        raise
    if options.replicas:
        knowledge_base.before_close(Tending(lambda: list(router.tend())).close)
    if options.compaction is not None:
        scratch = options.folder / "scratch"
        compacting = Compacting(cluster, options.compaction, scratch, router.fetch_ahead)
        router.compacting = compacting
        knowledge_base.before_close(compacting.close)
    return knowledge_base


def _state_folder(options: ClusterOptions, cluster: Cluster) -> Path:
    """Return the folder for what belongs to the service, called as the cluster's address ends: so pages call it too."""
    readable = re.sub(r"[^\w.-]+", "-", options.root.rstrip("/").rpartition("/")[2]).strip(".-")
    return options.folder / cluster.name / (readable or "cluster")


def _router(cluster: Cluster, options: ClusterOptions) -> Router:
    shards = options.folder / "shards"
    if not options.replicas:
        only = OneProcess(ShardHost(ShardOpener(cluster, shards), METHODS), options.router.replicas)
        return Router(cluster, only, options.router)
    from kbengine.cluster.ray_hosts import PoolOptions, RayPool
    from kbengine.cluster.ray_runtime import RayOptions, connect

    ray = connect(RayOptions(options.ray))

    def arranged(wish: Arrangement) -> RayPool:
        """Return the actors that a wish is for, their shards open."""
        manifest = cluster.manifest()
        n = wish.searchers or options.searchers or max(1, min(len(manifest.shards), MAX_SEARCHERS))
        placed, ref = placed_shards(manifest, n), manifest.ref()

        def spec_of(searcher: int) -> HostSpec:
            places = tuple(place_of(ref, name) for name, number in placed.items() if number == searcher)
            return HostSpec(options.root, options.catalog, str(shards.absolute()), places, cluster.name)

        pool = RayPool(
            ray,
            f"{cluster.name[:12]}-{__version__}-{wish.number}",
            spec_of,
            PoolOptions(n, options.replicas, is_shared=options.ray is not None),
            options.router.replicas,
        )
        pool.start([node.name for node in cluster.catalog.nodes() if node.state == "draining"])
        return pool

    cluster.catalog.migrate()
    wish = newest_arrangement(cluster.catalog)
    return Router(cluster, arranged(wish), options.router, arrangement=wish, rearrange=arranged)


class Tending:
    """A thread that looks every few seconds whether replicas are where they belong."""

    def __init__(self, tend: Callable[[], list[str]], every_s: float = TEND_S) -> None:
        self._tend = tend
        self._every_s = every_s
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kbengine-tending", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(self._every_s):
            try:
                for moved in self._tend():
                    _log.info("moved the replica %s", moved)
            except Exception as error:  # such as Ray's without its head: the next look may go better
                said = error.message if isinstance(error, KBError) else f"{type(error).__name__}: {error}"
                _log.warning("replicas could not be looked after: %s", said)
