"""Every limit that stores alone have, named, with its unit and its precedent.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: Bytes of one record (etcd takes requests of 1.5 MiB). An endpoint of ten variants, whose models
#: have 100 variables each of 1,024 characters for name and value, has 2 MiB, and 7 where all
#: characters of the values are escaped.
MAX_RECORD_BYTES: Final = 8 * MIB

#: Records of one kind: a hundred pages of a list (``MaxResults`` of AWS's service model: 100).
MAX_RECORDS: Final = 10_000

#: Bytes of all records, which the gateway holds in memory too (etcd's default quota is 2 GiB, and
#: all of a cluster's objects are in it).
MAX_STORED_BYTES: Final = 256 * MIB

#: Bytes that go with one record and stay on disk: a body of an asynchronous request (AWS's service
#: model: ``AsyncBodyBlob``). 10,000 records of a kind have 1.2 GiB of them.
MAX_ATTACHMENT_BYTES: Final = 128_000

#: Questions and changes that wait for the store's thread while it does one; each takes 2 ms, on a
#: disk that is well.
STORE_WAITING: Final = 64

#: A question or a change that has not been begun by then is given up: the disk does not answer (the
#: kernel warns of a task that hangs in a system call after 120 s).
STORE_BEGIN_TIMEOUT: Final = 30.0

#: For all that is still to be done when the store closes.
STORE_CLOSE_TIMEOUT: Final = 10.0

#: What SQLite's log keeps on disk once its content is in the database; as much as it has before
#: that by default, 1,000 pages of 4 KiB.
STORE_LOG_BYTES: Final = 4000 * KIB
