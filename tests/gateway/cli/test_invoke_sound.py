"""partway.gateway.cli.invoke_sound: a WAV file at the rate, width and channels asked for."""

from __future__ import annotations

import subprocess
import sys
import wave

import numpy as np
import pytest

from partway.gateway.cli.invoke_sound import AskedSound, asked_sound, opened_sound
from tests.gateway.cli.sounds import LOUDNESS, TONE, write_tone


def converted(path, asked: AskedSound) -> tuple[np.ndarray, list[int], str]:
    """The samples by channel, the parts' sizes, and what is said of it."""
    with opened_sound(path, asked) as sound:
        pieces = list(sound.pieces())
        said = sound.conversion
    samples = np.frombuffer(b"".join(pieces), "<i2").reshape(-1, asked.channels) / 32_768
    return samples, [len(piece) for piece in pieces], said


@pytest.mark.parametrize("width", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("rate", [8_000, 16_000, 22_050, 44_100, 48_000])
def test_it_sounds_as_before(tmp_path, rate, channels, width):
    """The same tone, as loud and as long, and nothing besides, whatever the file has."""
    path = tmp_path / "a.wav"
    write_tone(path, rate=rate, channels=channels, width=width)
    samples, sizes, said = converted(path, AskedSound(16_000, 1))
    assert set(sizes) == {640}, "parts of 20 ms"
    assert abs(len(samples) - 16_000) <= 1
    spectrum = np.abs(np.fft.rfft(samples[:, 0] * np.hanning(len(samples))))
    assert spectrum.argmax() == TONE
    noise = np.sum(spectrum**2) - np.sum(spectrum[TONE - 5 : TONE + 6] ** 2)
    assert 10 * np.log10(noise / np.max(spectrum) ** 2) < (-40 if width == 1 else -80)
    assert np.std(samples[1000:-1000]) == pytest.approx(LOUDNESS / 2**0.5, rel=0.01)
    same = (rate, channels, width) == (16_000, 1, 2)
    plural = "s" if channels > 1 else ""
    assert said == (
        ""
        if same
        else f"{rate} Hz, {channels} channel{plural}, {width * 8} bits; "
        "sent as 16000 Hz, 1 channel, 16 bits"
    )


def test_what_is_right_already_is_sent_byte_for_byte(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=44_100, channels=2, seconds=0.05)
    with opened_sound(path, AskedSound()) as sound:
        assert sound.conversion == ""
        sent = list(sound.pieces())
    assert [len(piece) for piece in sent] == [3528, 3528, 1764]
    assert path.read_bytes().endswith(b"".join(sent))


def test_one_channel_in_each_of_two(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000)
    samples, _, _ = converted(path, AskedSound(None, 2))
    assert samples.shape == (16_000, 2)
    assert (samples[:, 0] == samples[:, 1]).all()


def test_full_scale_is_not_wrapped_around(tmp_path):
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8_000)
        file.writeframes(np.repeat([32_767, -32_768] * 100, 40).astype("<i2").tobytes())
    samples, _, _ = converted(path, AskedSound(16_000, 2))
    assert samples.max() > 0.99
    assert samples.min() < -0.99


@pytest.mark.parametrize("kept", [0, 1, 5, 20_000])
def test_a_file_that_is_cut_short(tmp_path, kept):
    """Its whole frames are sent."""
    path = tmp_path / "a.wav"
    write_tone(path, rate=44_100, channels=2, width=3)
    path.write_bytes(path.read_bytes()[: 44 + kept])
    samples, _, _ = converted(path, AskedSound(44_100, 1))
    assert len(samples) == kept // 6
    with opened_sound(path, AskedSound()) as sound:
        assert sound.cut.startswith(f"it is cut: it has {kept} of 264600 bytes of samples")
        assert sound.cut.endswith(
            f"its last {kept % 6} bytes are not a whole frame and are left out"
        ) == (kept % 6 > 0)


@pytest.mark.parametrize("over", [1, 3])
def test_no_part_of_a_sample_is_sent_of_what_is_right_already(tmp_path, over):
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000, channels=2, seconds=0.1)
    whole = path.read_bytes()
    path.write_bytes(whole[: -4 + over])
    with opened_sound(path, AskedSound()) as sound:
        assert sound.conversion == ""
        assert b"".join(sound.pieces()) == whole[44:-4]
        assert sound.cut == (
            f"it is cut: it has {6396 + over} of 6400 bytes of samples; its last {over} bytes are "
            "not a whole frame and are left out"
        )


@pytest.mark.parametrize(
    ("stated", "cut"),
    [
        (0xFFFF_FFFF, "its last 1 bytes are not a whole frame and are left out"),
        (5, "its last 1 bytes are not a whole frame and are left out"),
        (4, ""),
        (0, ""),
    ],
)
def test_a_length_that_a_program_could_not_know_or_has_miscounted(tmp_path, stated, cut):
    path = tmp_path / "a.wav"
    path.write_bytes(PCM + b"data" + stated.to_bytes(4, "little") + b"\1\0\2\0\3")
    with opened_sound(path, AskedSound()) as sound:
        assert b"".join(sound.pieces()) == (b"\1\0\2\0" if stated else b"")
        assert sound.cut == cut


#: A head of 16 bits at 8000 Hz, by hand, up to its samples.
PCM = b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0\x40\x1f\0\0\x80\x3e\0\0\x02\0\x10\0"


def extensible(bits: int, channels: int, subformat: str) -> bytes:
    """The same in the extensible format, by hand: 22 bytes more, the sub-format's GUID at last."""
    frame = channels * bits // 8
    head = (
        b"\xfe\xff"
        + channels.to_bytes(2, "little")
        + (8000).to_bytes(4, "little")
        + (8000 * frame).to_bytes(4, "little")
        + frame.to_bytes(2, "little")
        + bits.to_bytes(2, "little")
        + b"\x16\0"
        + bits.to_bytes(2, "little")
        + b"\0\0\0\0"
        + bytes.fromhex(subformat)
    )
    return b"RIFF\xff\0\0\0WAVEfmt " + len(head).to_bytes(4, "little") + head


PCM_GUID = "01000000 0000 1000 8000 00aa00389b71"


def test_an_extensible_head(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(extensible(16, 2, PCM_GUID) + b"data\x08\0\0\0" + b"\1\0\2\0\3\0\4\0")
    with opened_sound(path, AskedSound()) as sound:
        assert (sound.rate, sound.conversion, sound.cut) == (8000, "", "")
        assert b"".join(sound.pieces()) == b"\1\0\2\0\3\0\4\0"
    path.write_bytes(extensible(24, 1, PCM_GUID) + b"data\x06\0\0\0" + b"\0\0\x40\0\0\xc0")
    with opened_sound(path, AskedSound()) as sound:
        assert np.frombuffer(b"".join(sound.pieces()), "<i2").tolist() == [16_384, -16_384]


@pytest.mark.parametrize(
    ("subformat", "why"),
    [
        ("03000000 0000 1000 8000 00aa00389b71", "unknown format: 3; it must be a WAV file with"),
        ("01000000 2107 d311 8644 c8c1ca000000", "unknown format: 65534 with another sub-format"),
    ],
)
def test_an_extensible_head_of_other_samples(tmp_path, subformat, why):
    path = tmp_path / "a.wav"
    path.write_bytes(extensible(32, 1, subformat) + b"data\0\0\0\0")
    with pytest.raises(ValueError, match=why), opened_sound(path, AskedSound()):
        pytest.fail("it was opened")


def test_a_long_file_is_read_a_block_at_a_time(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=48_000, seconds=3)
    with opened_sound(path, AskedSound(16_000, 1)) as sound:
        pieces = sound.pieces()
        next(pieces)
        assert sound._file.frames_read < 48_000


HEAD = b"RIFF\x28\0\0\0WAVEfmt \x10\0\0\0"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "it ends in the middle of its head"),
        (b"RIFF\xff\0\0\0WAVEfmt \xff\xff\xff\xff", "it ends in the middle of its head"),
        (b"ID3\x03 and so on", "it does not begin with RIFF and WAVE; it must be a WAV file with"),
        (PCM[:12] + b"data\0\0\0\0", "its samples come before their format; it must be a WAV file"),
        (PCM, "it ends in the middle of its head"),
        (extensible(16, 1, PCM_GUID)[:-1], "it ends in the middle of its head"),
        (
            HEAD + b"\x01\0\0\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x20\0data\0\0\0\0",
            "it has 0 channels of 32 bits; both must be 1 or more",
        ),
        (
            HEAD + b"\x03\0\x01\0\x40\x1f\0\0\0\x7d\0\0\x04\0\x20\0data\0\0\0\0",
            "unknown format: 3; it must be a WAV file with PCM samples",
        ),
        (
            HEAD + b"\x01\0\x01\0\0\0\0\0\0\0\0\0\x02\0\x10\0data\0\0\0\0",
            "its rate is 0 Hz; it must be 1000 to 768000",
        ),
        (
            HEAD + b"\x01\0\x01\0\x40\x1f\0\0\0\xfa\0\0\x08\0\x40\0data\0\0\0\0",
            "its samples have 64 bits; they must have 8, 16, 24 or 32",
        ),
    ],
    ids=[
        *("empty", "a chunk without end", "mp3", "no format", "no samples", "a cut format"),
        *("no channels", "floating point", "no rate", "64 bits"),
    ],
)
def test_a_file_that_cannot_be_sent(tmp_path, content, why):
    path = tmp_path / "a.wav"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=why), opened_sound(path, AskedSound()):
        pytest.fail("it was opened")


def test_channels_that_nobody_could_mix(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000, channels=6)
    why = "it has 6 channels, and 2 were requested; the two numbers must be equal"
    with pytest.raises(ValueError, match=why), opened_sound(path, AskedSound(None, 2)):
        pytest.fail("it was opened")


def test_so_many_channels_that_a_part_would_be_gigabytes(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=8_000, channels=300, seconds=0.01)
    with (
        pytest.raises(ValueError, match="it has 300 channels; it must have at most 256"),
        opened_sound(path, AskedSound()),
    ):
        pass
    with opened_sound(path, AskedSound(channels=1)) as sound:
        assert sum(map(len, sound.pieces())) == 160


@pytest.mark.parametrize("chunks", [999, 1000])
def test_samples_behind_many_chunks(tmp_path, chunks):
    path = tmp_path / "a.wav"
    write_tone(path, rate=8_000, seconds=0.01)
    data = path.read_bytes()
    at = data.index(b"data")  # behind RIFF's head and one chunk
    more = b"LIST\0\0\0\0" * (chunks - 1)
    size = (len(data) + len(more) - 8).to_bytes(4, "little")
    path.write_bytes(data[:4] + size + data[8:at] + more + data[at:])
    if chunks < 1000:
        with opened_sound(path, AskedSound()) as sound:
            assert sum(map(len, sound.pieces())) == 160
    else:
        with (
            pytest.raises(ValueError, match="must come after at most 1000 chunks"),
            opened_sound(path, AskedSound()),
        ):
            pass


@pytest.mark.parametrize("error", [EOFError("elsewhere"), wave.Error("elsewhere")])
def test_what_goes_wrong_elsewhere_is_not_laid_at_its_head(tmp_path, error):
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000, seconds=0.1)
    with pytest.raises(type(error), match="elsewhere"), opened_sound(path, AskedSound()):
        raise error


# --- What is asked for ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "rate", "channels", "asked"),
    [
        (None, None, None, AskedSound()),
        ("model=general", None, None, AskedSound()),
        ("sample_rate=16000&encoding=linear16&channels=1", None, None, AskedSound(16_000, 1)),
        ("sample_rate=16000&channels=1", 8_000, 2, AskedSound(8_000, 2)),
        ("sample_rate=fast&channels=%F0%9F", None, None, AskedSound()),
        ("encoding=LINEAR16", None, None, AskedSound()),
        ("encoding=pcm_s16le", 8_000, None, AskedSound(8_000)),
    ],
)
def test_a_flag_goes_before_the_query(query, rate, channels, asked):
    assert asked_sound(query, rate, channels) == asked


@pytest.mark.parametrize(
    ("query", "rate", "channels", "why"),
    [
        (None, 0, None, "--rate: 0 was given; with --wav it must be from 1000 to 768000"),
        (
            None,
            10_000_000,
            None,
            "--rate: 10000000 was given; with --wav it must be from 1000 to 768000",
        ),
        (None, None, 0, "--channels: 0 was given; with --wav it must be from 1 to 256"),
        (None, None, -2, "--channels: -2 was given; with --wav it must be from 1 to 256"),
        (
            "sample_rate=1",
            None,
            None,
            "--query sample_rate: 1 was given; with --wav it must be from 1000 to 768000",
        ),
        (
            "channels=99999999",
            None,
            None,
            "--query channels: 99999999 was given; with --wav it must be from 1 to 256",
        ),
        (
            f"channels={10**30}",
            None,
            None,
            f"--query channels: {10**30} was given; with --wav it must be from 1 to 256",
        ),
        (
            "channels=0",
            None,
            None,
            "--query channels: 0 was given; with --wav it must be from 1 to 256",
        ),
    ],
)
def test_a_number_that_nobody_has(query, rate, channels, why):
    with pytest.raises(ValueError, match=f"^{why}"):
        asked_sound(query, rate, channels)


@pytest.mark.parametrize("encoding", ["mulaw", "opus", "flac", "linear32"])
def test_an_encoding_that_is_another(encoding):
    why = f"--query encoding={encoding}: --wav sends linear16, 16-bit PCM; send a file in another"
    with pytest.raises(ValueError, match=why):
        asked_sound(f"model=a&encoding={encoding}", None, None)


def test_libsoxr_is_loaded_for_another_rate_alone(tmp_path):
    path = tmp_path / "a.wav"
    write_tone(path, rate=16_000, seconds=0.1)
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from partway.gateway.cli.invoke_sound import AskedSound, opened_sound\n"
        f"for asked in (AskedSound(), AskedSound(8_000)):\n"
        f"    with opened_sound(Path({str(path)!r}), asked) as sound: list(sound.pieces())\n"
        "    print('soxr' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines() == ["False False", "True True"]
