"""partway.gateway.batch.options: what the API takes, and what it does not."""

from __future__ import annotations

import pytest

from partway.gateway.batch.options import OptionsError, TransformOptions


def test_the_defaults_are_the_api_s():
    options = TransformOptions()
    assert (options.split_type, options.assemble_with, options.compression_type) == ("None",) * 3
    assert (options.invocation_timeout, options.max_retries) == (600, 3)
    assert (options.batch_strategy, options.max_payload_mb, options.max_concurrent) == (None,) * 3
    assert not options.processes


@pytest.mark.parametrize(
    "given", [{"input_filter": "$[1:]"}, {"output_filter": "$.a"}, {"join_source": "Input"}]
)
def test_what_has_records_processed(given):
    assert TransformOptions(**given).processes


@pytest.mark.parametrize(
    "given",
    [
        {"max_payload_mb": 0, "max_concurrent": 1000},
        {"max_payload_mb": 100, "max_concurrent": 1},
        {"max_payload_mb": 100, "max_concurrent": 0},
        {"max_payload_mb": 1, "max_concurrent": 100},
        {"max_concurrent": 100},
        {"invocation_timeout": 1, "max_retries": 0},
        {"invocation_timeout": 3600},
        {"input_filter": "$" * 63},
        {"content_type": "text/csv;\tcharset=utf-8", "accept": "text/csv, */*"},
    ],
)
def test_what_goes(given):
    TransformOptions(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"content_type": "text/csv\r\nX: y"},
            "ContentType: 'text/csv\\r\\nX: y' was given; it must",
        ),
        ({"content_type": "text/csv\0"}, "ContentType: 'text/csv\\x00' was given; it must"),
        ({"accept": "text/é"}, "Accept: 'text/é' was given; it must consist of visible ASCII"),
        ({"split_type": "Lines"}, "SplitType: 'Lines' was given; it must be None, Line, RecordIO"),
        ({"assemble_with": "None "}, "AssembleWith: 'None ' was given; it must be None or Line"),
        ({"compression_type": None}, "CompressionType: None was given; it must be None or Gzip"),
        ({"batch_strategy": "None"}, "BatchStrategy: 'None' was given; it must be MultiRecord or"),
        ({"join_source": "Output"}, "JoinSource: 'Output' was given; it must be None or Input"),
        (
            {"max_payload_mb": 101},
            "MaxPayloadInMB: 101 was given; it must be a whole number from 0",
        ),
        ({"max_payload_mb": -1}, "MaxPayloadInMB: -1 was given"),
        ({"max_concurrent": -1}, "MaxConcurrentTransforms: -1 was given"),
        ({"invocation_timeout": 0}, "InvocationsTimeoutInSeconds: 0 was given; it must be a whole"),
        ({"invocation_timeout": 3601}, "InvocationsTimeoutInSeconds: 3601 was given"),
        ({"max_retries": 4}, "InvocationsMaxRetries: 4 was given; it must be a whole number from"),
        ({"output_filter": "$" * 64}, "OutputFilter: it must have at most 63 characters"),
        (
            {"max_payload_mb": 6, "max_concurrent": 17},
            "MaxConcurrentTransforms: 17 was given; multiplied by MaxPayloadInMB, which is 6, it",
        ),
        (
            {"max_concurrent": 101},
            "MaxConcurrentTransforms: 101 was given; multiplied by MaxPayloadInMB, which is",
        ),
    ],
)
def test_what_does_not_go_is_named_as_the_api_names_it(given, said):
    with pytest.raises(OptionsError) as caught:
        TransformOptions(**given)
    assert str(caught.value).startswith(said)
    assert caught.value.member == said.partition(":")[0]
