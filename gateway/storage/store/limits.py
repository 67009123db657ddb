"""The limits of stores, named, with units and precedents.

Sizes are bytes, times are seconds.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

#: Bytes of one record (etcd takes requests of 1.5 MiB). An endpoint of ten variants has 2 MiB if
#: each model has 100 variables of 1,024 characters for name and value. It has 7 MiB if all
#: characters of the values are escaped.
MAX_RECORD_BYTES: Final = 8 * MIB

#: Records of one kind: a hundred pages of a list (``MaxResults`` of AWS's service model: 100).
MAX_RECORDS: Final = 10_000

#: Bytes of all records, which the gateway also holds in memory (etcd's default quota is 2 GiB for
#: all objects of a cluster).
MAX_STORED_BYTES: Final = 256 * MIB

#: Bytes that belong to one record and stay on disk: a body of an asynchronous request (AWS's
#: service model: ``AsyncBodyBlob``). 10,000 records of a kind have 1.2 GiB of attachments.
MAX_ATTACHMENT_BYTES: Final = 128_000

#: Operations that wait for the store's thread; each takes 2 ms on a healthy disk.
STORE_WAITING: Final = 64

#: Seconds for an operation to begin; after that the disk counts as hanging (the kernel warns of a
#: task that hangs in a system call after 120 s).
STORE_BEGIN_TIMEOUT: Final = 30.0

#: Seconds for the remaining operations when the store closes.
STORE_CLOSE_TIMEOUT: Final = 10.0

#: Bytes of SQLite's log that stay on disk once the content is in the database. The default size of
#: a log before that is as large: 1,000 pages of 4 KiB.
STORE_LOG_BYTES: Final = 4000 * KIB

#: Seconds for the copy of a backup: enough for 1.5 GiB on a disk that writes 12 MiB a second.
STORE_BACKUP_TIMEOUT: Final = 120.0
