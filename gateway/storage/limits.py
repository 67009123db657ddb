"""Limits of files on disk and at ``s3://``, with units and precedents.

Sizes are bytes, times are seconds. The store's limits are in :mod:`~.store.limits`.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

# --- Work on files -------------------------------------------------------------------------------

#: Threads that work on files at a time, including hanging threads that were left behind. Each has
#: its stack (8 MiB of addresses, 16 KiB of memory).
WORKING_THREADS: Final = 256

#: Seconds for a thread to notice that its work was stopped. Also seconds to wait for the removal of
#: unfinished data, which goes on afterwards.
WORK_STOP_TIMEOUT: Final = 5.0

#: Bytes of a file that are read at a time.
READ_BYTES: Final = 1 * MIB

# --- Places on this machine ----------------------------------------------------------------------

#: Bytes a second that a file system must write at least; the time is added to the limit for an
#: answer.
PUT_BYTES_PER_SECOND: Final = 1 * MIB

#: Files a second that a file system must list at least; the time is added to the limit for an
#: answer. A local disk lists 7,000.
LISTED_FILES_PER_SECOND: Final = 1000

#: Buckets whose connection settings are kept.
KNOWN_BUCKETS: Final = 64

# --- Files at s3:// ------------------------------------------------------------------------------

#: Seconds for a connection (botocore waits 60 s; a wrong address must be reported soon).
OBJECT_CONNECT_TIMEOUT: Final = 5.0

#: Seconds without data, including all retries (botocore ``read_timeout``).
OBJECT_PAUSE: Final = 60.0

#: Retries of a connection, a 5xx answer or a cut body (botocore's mode ``standard`` has two).
OBJECT_RETRIES: Final = 2

#: Bytes of a piece at least, except the last: 64 KiB in OBJECT_PAUSE are 1 KB/s.
OBJECT_PIECE: Final = 64 * KIB

#: Bytes a second that S3 must take at least; the time is added to OBJECT_PAUSE. Of a large file
#: this many parts of 5 MiB are held and sent at a time (boto3: ten parts of 8 MiB).
OBJECT_PUT_RATE: Final = 1 * MIB
OBJECT_PARTS_AT_ONCE: Final = 2

# --- Model data ----------------------------------------------------------------------------------

#: Disk space of all unpacked or downloaded model data; twice the 30 GB that the platform's
#: instances have for a model by default.
MODEL_DATA_QUOTA: Final = 64 * 1024 * MIB

#: Files, folders and links of one archive or prefix; a Python environment with PyTorch has 30,000.
MODEL_DATA_FILES: Final = 100_000

#: Bytes of one name in an archive; the system's bound is 4,096 for the whole path (Linux).
MODEL_DATA_PATH: Final = 1 * KIB

#: Bytes of all names of an archive, with the folders in their paths and with link targets: 100,000
#: of 160 bytes. The names stay in memory until the archive is unpacked, and take up to four times
#: as much there.
MODEL_DATA_NAMES_IN_ALL: Final = 16 * MIB

#: Nested folders; the removal keeps a descriptor open for each level.
MODEL_DATA_DEPTH: Final = 64

#: Bytes of a member's pax records, and of all pax records in an archive.
MODEL_DATA_RECORDS: Final = 16 * KIB
MODEL_DATA_RECORDS_IN_ALL: Final = 64 * MIB

#: The largest ratio of unpacked to packed bytes, checked from this many unpacked bytes on. Gzip
#: packs zeros 1,000 to 1, and weights rarely 2 to 1.
MODEL_DATA_RATIO: Final = 100
MODEL_DATA_RATIO_FROM: Final = 256 * MIB

#: Bytes that are counted for a file in addition to its content; also the block size in which
#: content is counted (ext4).
MODEL_DATA_BLOCK: Final = 4 * KIB

#: Seconds to download and unpack (the platform's ``ModelDataDownloadTimeoutInSeconds`` is 3,600 at
#: most).
MODEL_DATA_TIMEOUT: Final = 3600.0

#: Model data that is downloaded and unpacked at a time; each keeps a core busy.
MODEL_DATA_AT_ONCE: Final = 2

#: Seconds to look up model data on this machine; a working file system answers at once.
MODEL_DATA_LOOK_TIMEOUT: Final = 30.0

#: Seconds to list a prefix: 100 answers of 1,000 keys, each within 3 s.
MODEL_DATA_LIST_TIMEOUT: Final = 300.0

#: Files of a prefix that are read at a time (boto3's transfers: 10, each of 8 MiB; here each holds
#: 1 MiB).
OBJECTS_AT_ONCE: Final = 4

#: Seconds to lock the folder of model data, and to remove an earlier gateway's data in it.
MODEL_DATA_TAKE_OVER_TIMEOUT: Final = 300.0

#: Seconds that a stopping gateway waits for the removal of model data; the next gateway removes the
#: rest.
MODEL_DATA_CLOSE_TIMEOUT: Final = 30.0
