"""``llama_cpp.Llama`` in a process: each line of its input is a prompt and how many tokens to reply, and is answered.

python -m benchmarks.serving.llama_child FILE CONTEXT THREADS
"""

from __future__ import annotations

import json
import sys


def main(file: str, context: str, threads: str) -> None:
    import llama_cpp

    llama = llama_cpp.Llama(file, n_ctx=int(context), n_threads=int(threads), n_ubatch=512, verbose=False)
    print("done", flush=True)
    for line in sys.stdin:
        prompt, tokens = json.loads(line)
        said = llama.generate(prompt, temp=0.0)
        for _ in range(tokens):
            next(said)
        print("done", flush=True)
    llama.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
