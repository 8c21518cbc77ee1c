"""What a stranger sends is never waited for, never unpacked and never takes more memory than its bytes account for."""

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from forging import make, seal_whole, sign
from poisonproof import verify
from poisonproof.system.archives import (
    NoRegularFileError,
    map_npy,
    read_npz,
)
from poisonproof.system.files import open_arrays, read_record, sha256_of, write_arrays, write_record
from poisonproof.verification.theorem import leads, read_spread
from refused import refused

pytestmark = pytest.mark.posix

WAIT = 120  # seconds; what hangs, hangs for ever
ROOM = 700 << 20  # of memory, of which Python, NumPy and the package take about 100 MB
PROGRAM = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
from poisonproof.verification import verify
try:
    verdict = verify(sys.argv[1], votes=sys.argv[2] if len(sys.argv) > 2 else None)
    print(verdict.exit_code, verdict.verdict[:600])
except MemoryError:
    print(4, "MemoryError")
# what getrusage says may be the parent's peak, from before exec
print(next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    return make(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def folder(honest, tmp_path):
    shutil.copytree(honest, tmp_path / "run")
    return tmp_path / "run"


def verified(*paths):
    """Exit code, verdict and peak memory of a verification in a process of its own, with 4 GB at most."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, paths)], capture_output=True, text=True, check=True, timeout=WAIT
    )
    verdict, memory = done.stdout.splitlines()
    return int(verdict.split()[0]), verdict, int(memory)


# Pipes, devices, links


@pytest.mark.parametrize(
    "name", ["manifest.json", "votes.npy", "certificate.npz", "models/model.json", "models/estimator.skops"]
)
def test_a_pipe_is_not_waited_for(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    for path in (folder, *([folder / name] if name == "certificate.npz" else [])):
        code, verdict, _ = verified(path)
        assert (code, "is no regular file" in verdict) == (3, True), verdict


def test_a_device_behind_a_link_is_not_read(folder):
    (folder / "votes.npy").unlink()
    (folder / "votes.npy").symlink_to("/dev/zero")
    code, verdict, _ = verified(folder)
    assert (code, "votes.npy is a link" in verdict) == (3, True), verdict


def test_the_readers_of_poisonproof_itself_do_not_wait_for_pipes(tmp_path):
    os.mkfifo(tmp_path / "pipe.npy")
    for read in (read_record, open_arrays, map_npy, sha256_of, read_npz):
        with pytest.raises(NoRegularFileError, match=r"pipe\.npy is no regular file"):
            read(tmp_path / "pipe.npy")
    (tmp_path / "link.json").symlink_to(tmp_path / "true.json")
    write_record(tmp_path / "true.json", {"a": 1})
    assert read_record(tmp_path / "link.json")["a"] == 1  # data and runs may lie behind links; only pipes are refused


# Sizes


@pytest.mark.parametrize("name", ["manifest.json", "votes.npy", "certificate.npz", "split.npy"])
def test_a_file_with_holes_is_refused_by_its_size(folder, name):
    os.truncate(folder / name, 200 * 10**9)
    code, verdict, memory = verified(folder)
    assert code == 3
    assert "200000000000 bytes; at most" in verdict, verdict
    assert "--max-size" in verdict
    assert memory < ROOM


def test_the_limit_is_on_all_files_together_and_can_be_raised(folder):
    total = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    largest = max(path.stat().st_size for path in folder.rglob("*.json"))
    found = verify(folder, max_bytes=total // 2)
    assert found.exit_code == 3
    assert found.verdict.startswith("NOT VERIFIED: cannot check files: ")
    assert "are allowed" in found.verdict
    assert verify(folder, max_bytes=max(total, 64 * largest)).consistent


def test_records_that_a_reader_of_poisonproof_cannot_hold_are_refused(tmp_path):
    write_record(tmp_path / "record.json", {"a": 1})
    os.truncate(tmp_path / "record.json", 200 * 10**9)
    with refused("file.damaged"):
        read_record(tmp_path / "record.json")


def test_a_packed_certificate_is_not_unpacked(folder):
    """One array of 1 GB of zeros, in 4 MB."""
    _, facts = open_arrays(folder / "certificate.npz")
    body = io.BytesIO()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr("facts.npy", npy(np.frombuffer(json.dumps(facts, ensure_ascii=False).encode(), np.uint8)))
        with archive.open("radius.npy", "w", force_zip64=True) as member:
            member.write(npy(np.zeros(0, np.int64)).replace(b"(0,), }          ", b"(125000000,), } "))
            for _ in range(1000):
                member.write(bytes(10**6))
    seal_whole(folder / "certificate.npz", body.getvalue())
    assert (folder / "certificate.npz").stat().st_size < 5 << 20
    sign(folder)
    code, verdict, memory = verified(folder)
    assert (code, "holds packed arrays" in verdict) == (3, True), verdict
    assert memory < ROOM


def npy(array):
    body = io.BytesIO()
    np.save(body, array)
    return body.getvalue()


def loose(folder, n_classes, matrix, shifts):
    """A certificate and votes whose sizes multiply: classes by test samples, subsets by shifts."""
    n_test, n = matrix.shape
    facts = {
        "format": "poisonproof certificate 2",
        "method": "finite-aggregation",
        "k": n // len(shifts),
        "d": len(shifts),
        "n_subsets": n,
        "spread": {"n_subsets": n, "shifts": shifts},
        "spread_digest": "0" * 64,
        "split": None,
        "unit": "training samples",
        "classes": {"kind": "i", "values": list(range(n_classes))},
        "classes_inferred": False,
        "premises": [],
        "origin": None,
    }
    if n * len(shifts) < 10**6:
        facts["spread_digest"] = read_spread(facts["spread"], n, "here").digest
    arrays = {name: np.zeros(n_test, np.int64) for name in ("prediction", "runner_up", "margin", "radius")}
    arrays["margin"][:] = leads(matrix[0], n_classes, False).margin
    write_arrays(folder / "certificate.npz", arrays, facts)
    np.save(folder / "votes.npy", matrix)
    return folder / "certificate.npz", folder / "votes.npy"


def test_classes_times_test_samples_take_no_memory(tmp_path):
    """500,000 classes in a certificate of 4 MB: a table of leads would have taken gigabytes."""
    paths = loose(tmp_path, 500_000, np.zeros((60, 4), np.uint8), [0, 1])
    assert paths[0].stat().st_size < 5 << 20
    code, verdict, memory = verified(*paths)
    assert (code, "500000 classes are named" in verdict) == (3, True), verdict
    assert memory < ROOM


def test_as_many_classes_as_codes_are_counted_in_little_memory(tmp_path):
    paths = loose(tmp_path, 65_534, np.zeros((300, 4), np.uint8), [0, 1])
    code, verdict, memory = verified(*paths)
    assert (code, "the radius of test sample 0 is stated as 0, but its votes give 1" in verdict) == (3, True), verdict
    assert memory < ROOM


def test_subsets_times_shifts_are_refused_before_they_take_memory(tmp_path):
    paths = loose(tmp_path, 2, np.zeros((1, 400_000), np.uint8), list(range(40_000)))
    code, verdict, memory = verified(*paths)
    assert (code, "the spread of certificate.npz would take" in verdict) == (3, True), verdict
    assert memory < ROOM


def test_nested_json_is_refused(folder):
    (folder / "manifest.json").write_text("[" * 1_000_000)
    code, verdict, memory = verified(folder)
    assert (code, "manifest.json cannot be read" in verdict) == (3, True), verdict
    assert memory < ROOM


def test_an_honest_run_takes_little_memory(folder):
    code, _, memory = verified(folder)
    assert code == 5
    assert memory < ROOM // 2
