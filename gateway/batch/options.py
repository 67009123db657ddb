"""The options of a transform job, in the words of CreateTransformJob."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from partway.gateway.batch.limits import (
    INVOCATION_TIMEOUT,
    MAX_CONCURRENT,
    MAX_FILTER,
    MAX_INVOCATION_TIMEOUT,
    MAX_PAYLOAD_MB,
    MAX_RETRIES,
    RETRIES,
)
from partway.gateway.containers.container_requests import HEADER_VALUE
from partway.protocol.records import AssembleWith, BatchStrategy, SplitType

CompressionType: TypeAlias = Literal["None", "Gzip"]
JoinSource: TypeAlias = Literal["None", "Input"]

#: A filter that selects the whole record.
EVERYTHING: Final = "$"


class OptionsError(ValueError):
    """The options of a job are not valid.

    Args:
        member: the faulty member, by its name in the API.
        why: the value that was given and the values that are allowed.
    """

    def __init__(self, member: str, why: str) -> None:
        super().__init__(f"{member}: {why}")
        self.member = member
        self.why = why


@dataclass(frozen=True, slots=True, kw_only=True)
class TransformOptions:
    """The options of a transform job, apart from its model, input and output.

    Attributes:
        content_type: ``ContentType`` of the records; empty to send no header.
        accept: ``Accept``, and the type of the output; empty to send no header.
        split_type: ``SplitType``: how a file is cut into records.
        assemble_with: ``AssembleWith``: the text after each answer.
        compression_type: ``CompressionType``: the compression of the files.
        batch_strategy: ``BatchStrategy``: how many records a request has; None for the container's
            choice, or else as many as fit.
        max_payload_mb: ``MaxPayloadInMB``, megabytes of 2^20 bytes of a request's body. 0 for no
            limit, with bodies in chunks; None for the container's choice, or else 6.
        max_concurrent: ``MaxConcurrentTransforms``: requests that an instance has at a time; None
            or 0 for the container's choice, or else 1.
        invocation_timeout: ``InvocationsTimeoutInSeconds``.
        max_retries: ``InvocationsMaxRetries``.
        input_filter: ``InputFilter``: the part of a record that the container gets, as JSONPath.
        output_filter: ``OutputFilter``: the part of a joined record that is put out, as JSONPath.
        join_source: ``JoinSource``: whether answers are joined with their records.

    Raises:
        OptionsError: the API does not allow a value, or two values conflict.
    """

    content_type: str = ""
    accept: str = ""
    split_type: SplitType = "None"
    assemble_with: AssembleWith = "None"
    compression_type: CompressionType = "None"
    batch_strategy: BatchStrategy | None = None
    max_payload_mb: int | None = None
    max_concurrent: int | None = None
    invocation_timeout: int = INVOCATION_TIMEOUT
    max_retries: int = RETRIES
    input_filter: str = EVERYTHING
    output_filter: str = EVERYTHING
    join_source: JoinSource = "None"

    def __post_init__(self) -> None:
        for name, member, words in _WORDS:
            given = getattr(self, name)
            if given not in words and not (name == "batch_strategy" and given is None):
                raise OptionsError(member, f"{given!r} was given; it must be {_one_of(words)}")
        for name, member, least, most in _RANGES:
            number = getattr(self, name)
            if number is not None and not least <= number <= most:
                raise OptionsError(
                    member, f"{number} was given; it must be a whole number from {least} to {most}"
                )
        for text, member in ((self.content_type, "ContentType"), (self.accept, "Accept")):
            if not HEADER_VALUE.fullmatch(text):
                raise OptionsError(
                    member, f"{text!r} was given; it must consist of visible ASCII, spaces and tabs"
                )
        for name, member in (("input_filter", "InputFilter"), ("output_filter", "OutputFilter")):
            if len(getattr(self, name)) > MAX_FILTER:
                raise OptionsError(member, f"it must have at most {MAX_FILTER} characters")
        payload = 1 if self.max_payload_mb is None else self.max_payload_mb
        if payload * (self.max_concurrent or 0) > MAX_PAYLOAD_MB:
            raise OptionsError(
                "MaxConcurrentTransforms",
                f"{self.max_concurrent} was given; multiplied by MaxPayloadInMB, which is "
                f"{_payload_words(self.max_payload_mb)}, it must be at most {MAX_PAYLOAD_MB}",
            )

    @property
    def processes(self) -> bool:
        """Whether records are filtered or joined (``DataProcessing``)."""
        filters = {self.input_filter, self.output_filter}
        return filters != {EVERYTHING} or self.join_source != "None"


_WORDS: Final = (
    ("split_type", "SplitType", get_args(SplitType)),
    ("assemble_with", "AssembleWith", get_args(AssembleWith)),
    ("compression_type", "CompressionType", get_args(CompressionType)),
    ("batch_strategy", "BatchStrategy", get_args(BatchStrategy)),
    ("join_source", "JoinSource", get_args(JoinSource)),
)

_RANGES: Final = (
    ("max_payload_mb", "MaxPayloadInMB", 0, MAX_PAYLOAD_MB),
    ("max_concurrent", "MaxConcurrentTransforms", 0, MAX_CONCURRENT),
    ("invocation_timeout", "InvocationsTimeoutInSeconds", 1, MAX_INVOCATION_TIMEOUT),
    ("max_retries", "InvocationsMaxRetries", 0, MAX_RETRIES),
)


def _payload_words(megabytes: int | None) -> str:
    return "at least 1" if megabytes is None else f"{megabytes}"


def _one_of(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"
