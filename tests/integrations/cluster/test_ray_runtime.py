"""Connecting with Ray in programs that use it themselves."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os
import ray
from kbengine.cluster.ray_runtime import RayOptions, connect
from kbengine.errors import InvalidOptionError

connected = connect(RayOptions(cpus=1))

@connected.remote
class Actor:
    def answer(self):
        return 42

print("answer:", connected.get(Actor.remote().answer.remote()))
print("with a token:", ray._raylet.get_authentication_mode() == ray._raylet.AuthenticationMode.TOKEN)
ray.shutdown()

os.environ["RAY_AUTH_MODE"] = "disabled"
ray._raylet.Config.initialize("")
ray.init("local", num_cpus=1, include_dashboard=False, _node_ip_address="127.0.0.2")
del os.environ["RAY_AUTH_MODE"]
try:
    connect(RayOptions(cpus=1))
except InvalidOptionError as error:
    print("refused:", error.message)
ray.shutdown()
"""


def test_a_program_that_imported_ray_before_is_taken_and_one_without_a_token_refused(tmp_path: Path) -> None:
    """Ray reads mode and token when it is imported; without a token whoever reaches its ports runs code."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    environment |= {"PYTHONPATH": str(Path.cwd()), "HOME": str(tmp_path), "RAY_raylet_start_wait_time_s": "120"}
    command = [sys.executable, "-c", PROGRAM]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "refused: this program has connected Ray with a runtime that asks for no token" in ran.stdout
    assert "answer: 42" in ran.stdout and "with a token: True" in ran.stdout
