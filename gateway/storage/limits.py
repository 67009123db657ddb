"""Limits of files on disk and at ``s3://``: each with its unit and its precedent.

Sizes are bytes, times are seconds. Those of the store are in :mod:`~.store.limits`.
"""

from __future__ import annotations

from typing import Final

from partway.protocol.limits import KIB, MIB

# --- Work on files -------------------------------------------------------------------------------

#: Threads that work on files at a time, with those that hang and have been left behind; each has
#: its stack (8 MiB of addresses, 16 KiB of memory).
WORKING_THREADS: Final = 256

#: For a thread that works on files to see that it is not wanted any more; and for what it has
#: written to be removed before others have its place, while the removal goes on.
WORK_STOP_TIMEOUT: Final = 5.0

#: Bytes of a file that are read at a time.
READ_BYTES: Final = 1 * MIB

# --- Places on this machine ----------------------------------------------------------------------

#: For a file to be written, beside the time that a file system has for an answer: at least so many
#: bytes in a second.
PUT_BYTES_PER_SECOND: Final = 1 * MIB

#: For a folder to be listed, beside that time: at least so many files in a second. A local disk
#: lists 7,000.
LISTED_FILES_PER_SECOND: Final = 1000

#: Buckets whose connections' settings are remembered.
KNOWN_BUCKETS: Final = 64

# --- Files at s3:// ------------------------------------------------------------------------------

#: For a connection (botocore waits 60 s; a name that leads nowhere is to be heard of).
OBJECT_CONNECT_TIMEOUT: Final = 5.0

#: Nothing comes for so long, with all tries that are made meanwhile (botocore ``read_timeout``).
OBJECT_PAUSE: Final = 60.0

#: Tries after the first, for a connection, an answer of 5xx or a body that was cut (botocore's
#: mode ``standard`` has two more).
OBJECT_RETRIES: Final = 2

#: Bytes of a body that are handed on at least, but for its end: 64 KiB in OBJECT_PAUSE are 1 KB/s.
OBJECT_PIECE: Final = 64 * KIB

#: To put a file there, beside OBJECT_PAUSE: at least so many bytes in a second; of a large one so
#: many parts of 5 MiB are held and sent at a time (boto3: ten parts of 8 MiB).
OBJECT_PUT_RATE: Final = 1 * MIB
OBJECT_PARTS_AT_ONCE: Final = 2

# --- Model data ----------------------------------------------------------------------------------

#: Disk space of all model data that is unpacked or downloaded at a time; twice the 30 GB that an
#: instance of the platform's has for its model where nobody asks for more.
MODEL_DATA_QUOTA: Final = 64 * 1024 * MIB

#: Files, folders and links of one archive or prefix; an environment of Python's with PyTorch has
#: 30,000.
MODEL_DATA_FILES: Final = 100_000

#: Bytes of one name in an archive; the system's bound is 4,096 for the whole path (Linux).
MODEL_DATA_PATH: Final = 1 * KIB

#: Bytes of all names of an archive, each with the folders on its way, and of what links lead to:
#: 100,000 of 160 bytes. They are held until it is unpacked, and take up to four times as much then.
MODEL_DATA_NAMES_IN_ALL: Final = 16 * MIB

#: Folders within one another, which are removed with a descriptor open for each.
MODEL_DATA_DEPTH: Final = 64

#: Bytes of a member's pax records, and of all of them in an archive.
MODEL_DATA_RECORDS: Final = 16 * KIB
MODEL_DATA_RECORDS_IN_ALL: Final = 64 * MIB

#: An archive holds no more than so many times its own bytes, once that is more than so much: gzip
#: packs zeros 1,000 to 1, weights seldom 2 to 1.
MODEL_DATA_RATIO: Final = 100
MODEL_DATA_RATIO_FROM: Final = 256 * MIB

#: What a file is counted as beside its content, which is counted in blocks of as much (ext4).
MODEL_DATA_BLOCK: Final = 4 * KIB

#: To download and unpack (the platform's ``ModelDataDownloadTimeoutInSeconds`` is 3,600 at most).
MODEL_DATA_TIMEOUT: Final = 3600.0

#: Model data that is fetched and unpacked at a time; each keeps a core busy.
MODEL_DATA_AT_ONCE: Final = 2

#: To look at what model data is given on this machine: a file system that answers does so at once.
MODEL_DATA_LOOK_TIMEOUT: Final = 30.0

#: To list what a prefix holds: 100 answers of 1,000 keys, each within 3 s.
MODEL_DATA_LIST_TIMEOUT: Final = 300.0

#: Files of a prefix that are read at a time (boto3's transfers: 10, each of 8 MiB; here each holds
#: 1 MiB).
OBJECTS_AT_ONCE: Final = 4

#: To lock the folder of model data, and to remove what a gateway that is gone has left in it.
MODEL_DATA_TAKE_OVER_TIMEOUT: Final = 300.0

#: A gateway that stops waits so long for model data to be removed; the next one removes the rest.
MODEL_DATA_CLOSE_TIMEOUT: Final = 30.0
