"""Ray, reached or started: with token authentication, on loopback unless an address is given, sending nothing home.

Ray runs whatever code it is sent, so whoever reaches its ports without a token owns the machine. A runtime without
authentication is refused.
"""

from __future__ import annotations

import atexit
import importlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbengine.errors import InvalidOptionError, MissingExtraError, StateError

if TYPE_CHECKING:
    from types import ModuleType

NAMESPACE = "kbengine"
LOOPBACK = "127.0.0.2"
"""Address of a runtime started here. Ray replaces 127.0.0.1 by the machine's outside address; this one it leaves."""
JOIN_S = 120.0
"""How long this machine may take to become part of a runtime elsewhere."""
_MODE, _TOKEN, _TOKEN_PATH = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"
_ENDS_WITH_PARENT = """
import ctypes, runpy, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG
sys.argv[0] = "ray"
runpy.run_module("ray.scripts.scripts", run_name="__main__")
"""
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT)
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no report leaves the machine
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_gcs_server_request_timeout_seconds": "60",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "600",  # how long the head may be gone before this process is ended
    "RAY_raylet_start_wait_time_s": "120",  # under load it takes longer than Ray's 30 s
    "RAY_worker_register_timeout_seconds": "120",
    "RAY_worker_niceness": "0",  # Ray's 15 lets every other process of the machine go before an answer
}


@dataclass(frozen=True)
class RayOptions:
    """Which runtime is used.

    Attributes:
        address: Of a runtime that is there, HOST:PORT; None starts one on this machine, which ends with this process.
        cpus: What a runtime started here may use; None is what the machine has.
        object_store_bytes: Shared memory of a runtime started here; messages are small and need little.
    """

    address: str | None = None
    cpus: int | None = None
    object_store_bytes: int = 128 << 20

    def __post_init__(self) -> None:
        if self.cpus is not None and self.cpus < 1:
            raise InvalidOptionError(f"cpus is {self.cpus}, wanted 1 or more")
        if self.object_store_bytes < 80 << 20:
            raise InvalidOptionError(f"object_store_bytes is {self.object_store_bytes:,}, wanted at least 83,886,080")


def import_ray() -> ModuleType:
    """Return the module.

    Raises:
        MissingExtraError: it is not installed.
    """
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise MissingExtraError.of("searching or building on several machines", "ray", "cluster") from error


def connect(options: RayOptions | None = None) -> Any:
    """Connect this process with the runtime, or start one, and return the module; one that is connected stays.

    Raises:
        MissingExtraError: Ray is not installed.
        InvalidOptionError: authentication is turned off, or there is no token for the runtime at the address.
        StateError: the runtime does not answer.
    """
    options = options or RayOptions()
    _refuse_connected_without_token()
    require_token(is_local=options.address is None)
    ray: Any = import_ray()
    if ray.is_initialized():
        return ray
    _read_environment(ray)
    quiet = {"configure_logging": False, "log_to_driver": False, "namespace": NAMESPACE}
    handlers = {each: signal.getsignal(each) for each in _SIGNALS}
    try:
        if options.address is not None:
            _join(options.address)
            ray.init(options.address, **quiet)
        else:
            ray.init(
                "local",  # without it, one that happens to run here would be taken
                num_cpus=options.cpus,
                include_dashboard=False,
                object_store_memory=options.object_store_bytes,
                _node_ip_address=LOOPBACK,
                _temp_dir=_own_folder(),
                **quiet,
            )
    except Exception as error:  # when a runtime takes too long to start, Ray raises just this
        where = options.address or "this machine"
        said = str(error).strip().partition("\n")[0]
        raise StateError(
            f"Ray on {where} does not answer ({said}); look whether it runs, and whether {_TOKEN} here is its token"
        ) from error
    # Ray takes signals for itself; whoever had a handler, as a server that answers what it accepted, has it again.
    if threading.current_thread() is threading.main_thread():
        for each, handler in handlers.items():
            if callable(handler):
                signal.signal(each, handler)
    return ray


def _refuse_connected_without_token() -> None:
    """Raise InvalidOptionError where the program has connected Ray by itself, with a runtime that asks for no token."""
    ray = sys.modules.get("ray")
    if ray is None or not getattr(ray, "is_initialized", lambda: False)():
        return
    if ray._raylet.get_authentication_mode() != ray._raylet.AuthenticationMode.TOKEN:
        raise InvalidOptionError(
            "this program has connected Ray with a runtime that asks for no token; call ray.shutdown() before, and let "
            f"kbengine connect it, or set {_MODE}=token and {_TOKEN} before you import ray"
        )


def _read_environment(ray: Any) -> None:
    """Have Ray read its environment anew: a program that imported it sooner had it read without mode and token.

    Raises:
        StateError: this version of Ray cannot do that.
    """
    try:
        ray._raylet.Config.initialize("")
        ray._raylet.AuthenticationTokenLoader.instance().reset_cache()
        is_on = ray._raylet.get_authentication_mode() == ray._raylet.AuthenticationMode.TOKEN
    except AttributeError:
        is_on = False
    if not is_on:
        raise StateError(
            f"Ray was imported before its token authentication was turned on; set {_MODE}=token and {_TOKEN} in the "
            "environment of the program, or import ray after kbengine has connected it"
        )


def require_token(*, is_local: bool) -> None:
    """Turn token authentication on for this process and those that it starts; make a token for one's own runtime.

    Raises:
        InvalidOptionError: the environment turns it off, or no token is given for a runtime elsewhere.
    """
    mode = os.environ.setdefault(_MODE, "token")
    if mode.lower() != "token":
        raise InvalidOptionError(
            f"{_MODE} is {mode!r}, wanted 'token': without it whoever reaches Ray's ports runs code on its machines; "
            "unset it, and give every machine the same token ('ray get-auth-token --generate' makes one)"
        )
    if os.environ.get(_TOKEN) or os.environ.get(_TOKEN_PATH) or (Path.home() / ".ray" / "auth_token").exists():
        return
    if not is_local:
        raise InvalidOptionError(
            f"no token for Ray is given; set {_TOKEN}, or {_TOKEN_PATH} to a file, to the one that the runtime was "
            "started with"
        )
    os.environ[_TOKEN] = secrets.token_hex(32)


def _join(address: str) -> None:
    """Make this machine part of the runtime, as one that gives no processors: whoever calls actors has to be.

    What is started for it ends with this process, also when that is killed.

    Raises:
        StateError: the runtime does not take it.
    """
    command = [sys.executable, "-c", _ENDS_WITH_PARENT, "start", "--address", address, "--num-cpus", "0", "--block"]
    joined = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    late = threading.Timer(JOIN_S, joined.kill)
    late.start()
    said: list[str] = []
    assert joined.stdout is not None
    for line in joined.stdout:
        said.append(line.strip())
        if "Ray runtime started" in line:
            break
    late.cancel()
    if joined.poll() is not None or not said:
        raise StateError(
            f"this machine cannot join Ray on {address}: {next(filter(None, reversed(said)), 'it did not answer')}; "
            f"look whether it runs, whether {_TOKEN} here is its token, and whether both have the same versions of "
            "Python and Ray"
        )
    threading.Thread(target=joined.stdout.read, name="kbengine-ray", daemon=True).start()
    atexit.register(joined.terminate)


def _own_folder() -> str:
    """Return a folder for sockets and logs that only this user enters; short, since names of sockets are bounded."""
    folder = Path(tempfile.gettempdir()) / f"kbengine-ray-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise StateError(f"{folder} belongs to another user; set TMPDIR to a folder of your own")
    folder.chmod(0o700)
    return str(folder)
