"""An engine that pauses itself while the server waits for the rest of a statement of its own.

Its row locks stay, and no timeout of the server's ends such a wait. It says what became of it.
"""

from __future__ import annotations

import os
import signal
import sys

from runyard.errors import StoreAway
from runyard.store import open_store
from runyard.store.base import Transaction
from runyard.store.postgres import PostgresStore, PostgresTransaction
from runyard.store.rows import Claim


def main(url: str, name: str) -> None:
    store = open_store(url)
    assert isinstance(store, PostgresStore)

    def begin(tx: Transaction) -> tuple[int, Claim]:
        batch = tx.batch(name)
        assert batch is not None
        engine = tx.sign_on("here", os.getpid(), "processes", 1)
        store.acquire_liveness(engine)
        claim = tx.claim(batch.id, engine, 10**6)
        assert claim is not None
        return batch.id, claim

    batch, claim = store.write(begin)
    try:
        # Transactions of the store are pipelines, in which there is no COPY.
        with store._translated(), store._sessions.connect() as driver:
            tx = PostgresTransaction(driver, store.alive, {})
            assert tx.holds(claim)
            tx.update_batch(batch, seconds=1.0)
            driver.execute("CREATE TABLE IF NOT EXISTS paused (x BIGINT)")
            with driver.cursor().copy("COPY paused FROM STDIN") as copy:
                copy.write("1\n" * 100_000)
                print("paused", flush=True)
                os.kill(os.getpid(), signal.SIGSTOP)
                copy.write("2\n" * 100_000)
    except StoreAway:
        print("ended by others", flush=True)
    print("holds" if store.write(lambda tx: tx.holds(claim)) else "lost", flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
