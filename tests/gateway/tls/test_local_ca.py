"""The local CA: what it makes, when it makes it anew, what it refuses, and many at once."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import ssl
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given
from hypothesis import strategies as st

from partway.gateway.tls.context import TlsFiles, server_context
from partway.gateway.tls.local_ca import (
    LocalCa,
    aws_names,
    certificate_name,
    default_directory,
    default_names,
)
from partway.gateway.tls.trust import TlsError
from tests.conftest import ROOT
from tests.gateway.tls.peers import Ends, trusting, write_pair

NOW = datetime.now(UTC).replace(microsecond=0)
DAY = timedelta(days=1)
HERE = ["localhost", "127.0.0.1", "::1"]
AWS = "runtime.sagemaker.eu-west-1.amazonaws.com"


@pytest.fixture
def directory(tmp_path) -> Path:
    return tmp_path / "data" / "tls"


@pytest.fixture
def ca(directory) -> LocalCa:
    return LocalCa(directory)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def names_in(path: Path) -> list[str]:
    names = certificate(path).extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


# --- What is made --------------------------------------------------------------------------------


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize("name", [*HERE, AWS, "a.apps.example"])
def test_a_client_that_trusts_the_ca_gets_through(ca, name):
    files = ca.ensure([*HERE, AWS, "*.apps.example"], NOW)
    client = trusting(files.ca)
    ends = Ends(server_context(files), client, name).shake()
    assert ends.says(b"hello") == b"hello"


@pytest.mark.parametrize(
    "name", ["example.com", "127.0.0.2", "::2", "a.localhost", "runtime.sagemaker.amazonaws.com"]
)
def test_a_name_that_is_not_in_it_is_refused(ca, name):
    files = ca.ensure([*HERE, AWS], NOW)
    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        Ends(server_context(files), trusting(files.ca), name).shake()


def test_a_client_that_does_not_trust_it_does_not_get_through(ca, tmp_path):
    files = ca.ensure(HERE, NOW)
    (tmp_path / "other").mkdir()
    other = LocalCa(tmp_path / "other").ensure(HERE, NOW)
    with pytest.raises(ssl.SSLCertVerificationError):
        Ends(server_context(files), trusting(other.ca)).shake()


def test_files_and_their_modes(ca, directory):
    umask = os.umask(0o022)
    try:
        files = ca.ensure(HERE, NOW)
    finally:
        os.umask(umask)
    assert files == TlsFiles(
        directory / "server.pem", directory / "server-key.pem", directory / "ca.pem"
    )
    modes = {path.name: path.stat().st_mode & 0o777 for path in directory.iterdir()}
    assert modes == {
        "ca.pem": 0o644,
        "ca-key.pem": 0o600,
        "server.pem": 0o644,
        "server-key.pem": 0o600,
        "lock": 0o644,
    }
    assert directory.stat().st_mode & 0o777 == 0o700


def test_the_ca(ca):
    made = certificate(ca.ensure(HERE, NOW).ca)
    assert made.public_key().curve.name == "secp256r1"
    assert made.issuer == made.subject
    assert made.not_valid_before_utc <= NOW - timedelta(minutes=30)
    assert 3640 * DAY < made.not_valid_after_utc - NOW < 3653 * DAY
    constraints = made.extensions.get_extension_for_class(x509.BasicConstraints)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    usage = made.extensions.get_extension_for_class(x509.KeyUsage)
    assert usage.critical
    assert usage.value.key_cert_sign
    assert not usage.value.digital_signature


def test_the_servers_certificate(ca):
    files = ca.ensure(HERE, NOW)
    made = certificate(files.certificate)
    assert made.public_key().curve.name == "secp256r1"
    assert made.not_valid_before_utc <= NOW - timedelta(minutes=30)
    assert made.not_valid_after_utc - made.not_valid_before_utc <= 397 * DAY
    assert made.not_valid_after_utc - NOW > 396 * DAY
    assert names_in(files.certificate) == HERE
    usage = made.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert not made.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl")
@pytest.mark.parametrize(
    ("check", "name"), [("-verify_hostname", "localhost"), ("-verify_ip", "::1")]
)
def test_openssl_verifies_it(ca, check, name):
    files = ca.ensure(HERE, NOW)
    command = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", check, name]
    process = subprocess.run(
        [*command, "-CAfile", files.ca, files.certificate], capture_output=True, check=False
    )
    assert process.returncode == 0, process.stderr.decode()


# --- When it is made anew ------------------------------------------------------------------------


def test_nothing_is_written_when_there_is_nothing_to_do(ca, directory):
    ca.ensure(HERE, NOW)
    (directory / "ca-key.pem").unlink()  # it is needed for signing alone
    (directory / "lock").unlink()
    before = contents(directory)
    LocalCa(directory).ensure(HERE[:1], NOW + 360 * DAY)
    assert contents(directory) == before


def changed(directory: Path, before: dict[str, bytes]) -> set[str]:
    after = contents(directory)
    assert after.keys() == before.keys()
    return {name for name, data in after.items() if data != before[name]}


@pytest.mark.parametrize("days", [368, 396, 400, 3000])
def test_renewed_before_its_end_and_after_it(ca, directory, days):
    ca.ensure([*HERE, AWS], NOW)
    before = contents(directory)
    files = ca.ensure(HERE, NOW + days * DAY)
    assert changed(directory, before) == {"server.pem"}
    made = certificate(files.certificate)
    assert made.not_valid_after_utc > NOW + (days + 390) * DAY
    assert sorted(names_in(files.certificate)) == sorted([*HERE, AWS])
    server_context(files)


def test_it_does_not_outlive_the_ca_and_is_not_made_anew_in_vain(ca, directory):
    files = ca.ensure(HERE, NOW)
    ca.ensure(HERE, NOW + 3640 * DAY)
    before = contents(directory)
    assert (
        certificate(files.certificate).not_valid_after_utc
        == certificate(files.ca).not_valid_after_utc
    )
    ca.ensure(HERE, NOW + 3649 * DAY)
    assert contents(directory) == before


def test_made_anew_when_it_begins_in_the_future(ca, directory):
    """The clock was wrong when it was made."""
    files = ca.ensure(HERE, NOW)
    ca.ensure(["a.example"], NOW + 100 * DAY)
    ca.ensure(HERE, NOW)
    assert certificate(files.certificate).not_valid_before_utc < NOW


def test_names_only_grow(ca, directory):
    files = ca.ensure(["localhost", "::1"], NOW)
    before = contents(directory)
    ca.ensure(["b.example"], NOW)
    assert changed(directory, before) == {"server.pem"}
    ca.ensure(["LOCALHOST.", "B.example", "0:0::1", "192.0.2.1"], NOW)
    assert sorted(names_in(files.certificate)) == ["192.0.2.1", "::1", "b.example", "localhost"]
    before = contents(directory)
    ca.ensure(["192.0.2.1", "b.example"], NOW)
    assert contents(directory) == before


def test_too_many_names(ca, directory):
    many = [f"n{number}.example" for number in range(100)]
    files = ca.ensure(many, NOW)
    assert names_in(files.certificate) == many
    before = contents(directory)
    with pytest.raises(TlsError) as caught:
        ca.ensure(["one-more.example"], NOW)
    assert str(caught.value).startswith(
        f"{files.certificate}: the certificate would carry 101 names"
    )
    assert contents(directory) == before


@pytest.mark.parametrize("name", ["server.pem", "server-key.pem"])
def test_a_servers_file_that_is_gone_is_made_anew(ca, directory, name):
    files = ca.ensure(HERE, NOW)
    (directory / name).unlink()
    assert ca.ensure(HERE, NOW) == files
    Ends(server_context(files), trusting(files.ca)).shake()


def test_a_servers_key_that_is_anothers_gets_a_certificate(ca, directory, tmp_path):
    files = ca.ensure(HERE, NOW)
    files.key.write_bytes(write_pair(tmp_path, "x").key.read_bytes())
    before = contents(directory)
    ca.ensure(HERE, NOW)
    assert changed(directory, before) == {"server.pem"}
    Ends(server_context(files), trusting(files.ca)).shake()


def test_a_ca_that_others_trust_already(ca, directory, tmp_path):
    """Both of its files may be put there; what another CA signed is replaced."""
    (tmp_path / "other").mkdir()
    LocalCa(tmp_path / "other").ensure(HERE, NOW)
    ca.ensure(HERE, NOW)
    for name in ("ca.pem", "ca-key.pem"):
        shutil.copy(tmp_path / "other" / name, directory / name)
    files = ca.ensure(HERE, NOW)
    Ends(server_context(files), trusting(tmp_path / "other" / "ca.pem")).shake()


def test_a_ca_certificate_that_is_gone_is_made_with_the_same_key(ca, directory):
    files = ca.ensure(HERE, NOW)
    old = directory.parent / "old-ca.pem"
    files.ca.replace(old)
    ca.ensure(HERE, NOW)
    Ends(server_context(files), trusting(old)).shake()
    Ends(server_context(files), trusting(files.ca)).shake()


# --- What is refused -----------------------------------------------------------------------------


def refusal(ca: LocalCa, names: list[str] = HERE, now: datetime = NOW) -> str:
    with pytest.raises(TlsError) as caught:
        ca.ensure(names, now)
    return str(caught.value)


def test_a_ca_that_ended(ca, directory):
    ca.ensure(HERE, NOW)
    before = contents(directory)
    said = refusal(ca, now=NOW + 3651 * DAY)
    assert said.startswith(f"{directory}/ca.pem: the CA ended on ")
    assert f"remove it and {directory}/ca-key.pem for a new one" in said
    assert contents(directory) == before


@pytest.mark.parametrize("garbage", [b"", b"garbled", b"\xff\x00", "encrypted", "another kind"])
@pytest.mark.parametrize("name", ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"])
def test_files_that_are_not_what_they_should_be(ca, directory, tmp_path, name, garbage):
    ca.ensure(HERE, NOW)
    if garbage == "encrypted":
        garbage = write_pair(tmp_path, "x", password=b"secret").key.read_bytes()
    elif garbage == "another kind":
        garbage = write_pair(tmp_path, "x", kind="rsa").key.read_bytes()
    (directory / name).write_bytes(garbage)
    before = contents(directory)
    said = refusal(ca, ["new.example"])
    assert said.startswith(f"{directory}/{name}: the file is not a")
    assert said.endswith("; put the right one back, or remove it")
    assert contents(directory) == before


def test_a_key_of_the_ca_that_is_missing_or_anothers(ca, directory, tmp_path):
    ca.ensure(HERE, NOW)
    path = directory / "ca-key.pem"
    shutil.copy(directory / "server-key.pem", path)
    said = refusal(ca, ["new.example"])
    assert said.startswith(f"{path}: the file is not the key of {directory}/ca.pem; ")
    path.unlink()
    said = refusal(ca, ["new.example"])
    assert said.startswith(f"{path}: the file is missing, so nothing can be signed; ")
    assert f"remove {directory}/ca.pem for a new CA" in said


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o606])
@pytest.mark.parametrize("name", ["ca-key.pem", "server-key.pem"])
def test_a_key_that_others_may_use(ca, directory, name, mode):
    ca.ensure(HERE, NOW)
    (directory / name).chmod(mode)
    said = refusal(ca, ["new.example"])
    assert said.startswith(f"{directory}/{name}: users other than its owner could use this key")
    assert f"mode {mode:04o}" in said
    assert "chmod 600" in said
    (directory / name).chmod(0o400)
    ca.ensure(["new.example"], NOW)


@pytest.mark.parametrize("mode", [0o644, 0o602])
def test_the_ca_s_key_is_looked_at_when_there_is_nothing_to_do_too(ca, directory, mode):
    """Whoever has it signs certificates for any host, which this user's clients trust."""
    ca.ensure(HERE, NOW)
    (directory / "ca-key.pem").chmod(mode)
    said = refusal(ca, HERE)
    assert said == (
        f"{directory}/ca-key.pem: users other than its owner could use this key (mode {mode:04o}); "
        "chmod 600 it, or remove it if another user may have read it"
    )
    (directory / "ca-key.pem").unlink()  # it may be kept elsewhere
    ca.ensure(HERE, NOW)


@pytest.mark.parametrize("mode", [0o777, 0o720])
def test_a_directory_that_others_may_write(ca, directory, mode):
    directory.mkdir(parents=True)
    directory.chmod(mode)
    said = refusal(ca, HERE)
    assert said == (
        f"{directory}: users other than its owner could put their own CA here (mode {mode:04o}); "
        "chmod 700 it, and remove its files if that may have happened"
    )
    directory.chmod(0o755)
    ca.ensure(HERE, NOW)


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    directory = tmp_path / "file" / "tls"
    said = refusal(LocalCa(directory))
    assert str(directory) in said
    assert "Not a directory" in said
    said = refusal(LocalCa(tmp_path / "file"))
    assert str(tmp_path / "file") in said


@pytest.mark.parametrize("name", ["lock", "ca-key.pem", "ca.pem", "server-key.pem", "server.pem"])
def test_what_cannot_be_written(ca, directory, name, monkeypatch):
    """For whichever file there is no room: named, nothing left lying, done the next time."""
    directory.mkdir(parents=True)
    with monkeypatch.context() as patch:
        real_replace, real_open = os.replace, Path.open

        def replace(source: str | Path, target: str | Path, **folders: int | None) -> None:
            if Path(target).name == name:
                raise OSError(28, "No space left on device")
            real_replace(source, target, **folders)

        def open_(self: Path, *args, **options):
            if self.name == name == "lock":
                raise PermissionError(13, "Permission denied")
            return real_open(self, *args, **options)

        patch.setattr(os, "replace", replace)
        patch.setattr(Path, "open", open_)
        said = refusal(ca)
    why = "Permission denied" if name == "lock" else "No space left on device"
    assert said == (
        f"{directory}/{name}: cannot be written: {why}; "
        "use a directory that this user owns, or give a certificate and a key"
    )
    assert [path for path in directory.iterdir() if path.name.startswith(".")] == []
    files = ca.ensure(HERE, NOW)
    Ends(server_context(files), trusting(files.ca)).shake()


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_that_is_another_users(tmp_path):
    tmp_path.chmod(0o500)
    said = refusal(LocalCa(tmp_path / "tls"))
    assert said.startswith(f"{tmp_path}/tls: cannot be written: Permission denied; ")


# --- Many at once --------------------------------------------------------------------------------


def test_processes_that_start_at_once_make_one_ca(directory):
    program = (
        "import sys; from datetime import UTC, datetime; from pathlib import Path\n"
        "from partway.gateway.tls.local_ca import LocalCa\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
        "files = LocalCa(Path(sys.argv[1])).ensure(sys.argv[2:], datetime.now(UTC))\n"
        "print(files.ca.read_text())\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, directory, "localhost", f"n{number}.example"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        for number in range(4)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("\n")
            process.stdin.flush()
        made = {process.communicate(timeout=30)[0] for process in processes}
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    assert made == {(directory / "ca.pem").read_text() + "\n"}
    names = names_in(directory / "server.pem")
    assert sorted(names) == ["localhost", *(f"n{number}.example" for number in range(4))]


def test_what_another_process_made_meanwhile_is_taken(ca, directory, tmp_path):
    (tmp_path / "other").mkdir()
    LocalCa(tmp_path / "other").ensure(HERE, NOW)
    directory.mkdir(parents=True)
    with ThreadPoolExecutor() as pool:
        with (directory / "lock").open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            waiting = pool.submit(ca.ensure, HERE, NOW)
            with pytest.raises(TimeoutError):
                waiting.result(0.2)
            shutil.copytree(tmp_path / "other", directory, dirs_exist_ok=True)
        waiting.result(20)
    assert contents(directory) == contents(tmp_path / "other")


@pytest.mark.parametrize("patience", [0, 0.1])
def test_a_lock_that_is_held_for_long_is_an_error(ca, directory, patience):
    directory.mkdir(parents=True)
    with (directory / "lock").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TlsError) as refused:
            ca.ensure(HERE, NOW, patience)
        held_for = f"{directory}/lock: another process has held this lock for {patience:g} s; "
        assert str(refused.value).startswith(held_for)
    ca.ensure(HERE, NOW)


# --- Names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("localhost", "localhost"),
        ("Gateway.Example.", "gateway.example"),
        ("*.example", "*.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:DB8::0:1", "2001:db8::1"),
        ("a" * 63 + ".b", "a" * 63 + ".b"),
    ],
)
def test_names(text, expected):
    assert certificate_name(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "-a", "a-", "a..b", "a_b", "a b", "a\n", "ä.example", "*", "a.*", "*a.b", "a/b",
        "http://a", "a:8443", "[::1]", "127.1", "1.2.3.256", "0.0.0.0", "::", "fe80::1%eth0",
        "a" * 64, ".".join(["a" * 60] * 5), "$(id).example",
    ],
)  # fmt: skip
def test_what_is_no_name(text, ca, directory):
    with pytest.raises(
        ValueError, match=r"must be an IP address or a DNS|must be the address of one"
    ):
        certificate_name(text)
    with pytest.raises(ValueError):
        ca.ensure([text], NOW)
    assert not directory.exists()


@given(st.text(max_size=20) | st.from_regex(r"[a-z0-9.*:-]{1,20}") | st.ip_addresses().map(str))
def test_a_name_stays_as_it_is(text):
    try:
        name = certificate_name(text)
    except ValueError:
        return
    assert certificate_name(name) == name
    assert name.isascii()


@pytest.mark.parametrize(
    ("host", "added"),
    [
        ("127.0.0.1", []),
        ("localhost", []),
        ("0.0.0.0", []),
        ("::", []),
        ("", []),
        ("192.0.2.7", ["192.0.2.7"]),
        ("Gateway.example", ["gateway.example"]),
    ],
)
def test_names_of_a_gateway_here(host, added, monkeypatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Laptop")
    assert default_names(host) == ["localhost", "127.0.0.1", "::1", "laptop", *added]
    monkeypatch.setattr(socket, "gethostname", lambda: "not_a name")
    assert default_names(host) == ["localhost", "127.0.0.1", "::1", *added]


@pytest.mark.clause("2.5-6")
@pytest.mark.parametrize("region", ["us-east-1", "ap-southeast-2", "us-gov-west-1", "mx-central-1"])
def test_names_of_aws(region):
    assert aws_names(region) == [f"runtime.sagemaker.{region}.amazonaws.com"]


def test_names_of_aws_are_botocores():
    session = pytest.importorskip("botocore.session").Session()
    regions = 0
    for partition in session.get_data("endpoints")["partitions"]:
        if partition["partition"] in ("aws", "aws-us-gov"):
            for region in partition["services"]["runtime.sagemaker"]["endpoints"]:
                if not region.endswith("-fips"):
                    host = partition["defaults"]["hostname"].format(
                        service="runtime.sagemaker", region=region, dnsSuffix=partition["dnsSuffix"]
                    )
                    assert aws_names(region) == [host]
                    regions += 1
    assert regions > 20


@pytest.mark.parametrize(
    "region",
    ["", "us-east", "us-east-1 ", "US-EAST-1", "us-east-1.evil", "cn-north-1", "us-iso-east-1",
     "eusc-de-east-1", "x\n", "us-east-100", "local"],
)  # fmt: skip
def test_what_is_no_region(region):
    with pytest.raises(ValueError, match=r"it must be an AWS region with hosts in amazonaws\.com"):
        aws_names(region)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"HOME": "/home/u"}, "/home/u/.local/share/partway/tls"),
        ({"HOME": "/home/u", "XDG_DATA_HOME": ""}, "/home/u/.local/share/partway/tls"),
        ({"HOME": "/home/u", "XDG_DATA_HOME": "data"}, "/home/u/.local/share/partway/tls"),
        ({"HOME": "/home/u", "XDG_DATA_HOME": "/data"}, "/data/partway/tls"),
        ({"XDG_DATA_HOME": "/data"}, "/data/partway/tls"),
    ],
)
def test_the_users_directory(environment, expected):
    assert default_directory(environment) == Path(expected)


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}])
def test_a_user_without_a_home(environment):
    with pytest.raises(TlsError, match="set HOME or XDG_DATA_HOME"):
        default_directory(environment)
