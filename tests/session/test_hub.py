from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hub_server import GOOD, Hub, Repo, serving
from huggingface_hub import constants, hf_api

from llmchat.errors import AccessError, Cancelled, LlmchatError, ModelError, OfflineError, StorageError
from llmchat.session import hub
from llmchat.session.hub import transfer as transfer_module
from llmchat.session.models.hubcache import repository, snapshot

SHARD = 3 * 2**20
SHARDS = {f"model-0000{i}-of-00002.safetensors": bytes([i]) * SHARD for i in (1, 2)}
INDEX = json.dumps(
    {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
)
DESCRIPTION = {
    "config.json": b'{"architectures": ["LlamaForCausalLM"], "torch_dtype": "bfloat16"}',
    "tokenizer.json": b"{}",
    "tokenizer_config.json": b"{}",
    "chat_template.jinja": b"{{ messages }}",
    "merges.txt": b"a b",
}
CLUTTER = {
    "README.md": b"# read me",
    "pytorch_model.bin": b"pickle",
    "pytorch_model.bin.index.json": b"{}",
    "consolidated.safetensors": b"twice",
    "model.gguf": b"GGUF",
    "original/consolidated.00.pth": b"x",
    "onnx/config.json": b"{}",
}
REPOS = {
    "org/good": Repo(DESCRIPTION | CLUTTER | SHARDS | {"model.safetensors.index.json": INDEX.encode()}),
    "org/single": Repo(DESCRIPTION | {"model.safetensors": b"w" * 1000}),
    "org/gated": Repo(DESCRIPTION, "gated"),
    "org/awaiting": Repo(DESCRIPTION, "awaiting"),
    "org/private": Repo(DESCRIPTION | {"model.safetensors": b"w"}, "private"),
    "org/broken": Repo({}, "broken"),
    "org/gguf": Repo({"model-Q4.gguf": b"GGUF"}),
    "org/pickle": Repo(DESCRIPTION | {"pytorch_model.bin": b"x"}),
    "org/lora": Repo({"adapter_config.json": b"{}"}),
}


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH", "HF_OIDC_RESOURCE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr(constants, "HF_STORED_TOKENS_PATH", str(tmp_path / "stored_tokens"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)


def use(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", url)
    monkeypatch.setattr(hf_api.api, "endpoint", url)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving(dict(REPOS)) as running:
        use(running.url, monkeypatch)
        yield running


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hub that is not there: a port on which nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    use(f"http://127.0.0.1:{port}", monkeypatch)


def store(token: str) -> None:
    Path(constants.HF_TOKEN_PATH).write_text(token)


def names(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


def get(model: str, revision: str = "", cancelled: Callable[[], bool] = lambda: False) -> Path:
    return hub.download(model, revision, lambda done, total: None, cancelled)


# --- the account


def test_nobody_is_logged_in(server: Hub) -> None:
    account = hub.account()
    assert (account.name, account.source) == (None, "")
    assert "public" in account.note
    assert server.requests == []


def test_login_checks_and_stores_the_token(server: Hub) -> None:
    account = hub.login(f"  {GOOD}\n")
    assert (account.name, account.role, account.source) == ("ada", "read", "stored as laptop")
    assert Path(constants.HF_TOKEN_PATH).read_text() == GOOD
    assert Path(constants.HF_TOKEN_PATH).stat().st_mode & 0o777 == 0o600
    assert hub.account() == account


def test_a_wrong_token_is_refused_and_not_stored(server: Hub) -> None:
    with pytest.raises(AccessError) as caught:
        hub.login("hf_wrong")
    assert "hf_wrong" not in repr(caught.value.problem)
    assert "settings/tokens" in caught.value.problem.remedy
    assert not Path(constants.HF_TOKEN_PATH).exists()


@pytest.mark.parametrize("token", ["", "  ", "two words", "hf_ü", "api_orgSECRET"])
def test_what_is_no_token_is_refused_unasked(server: Hub, token: str) -> None:
    with pytest.raises(AccessError) as caught:
        hub.login(token)
    assert "SECRET" not in repr(caught.value.problem)
    assert server.requests == []


def test_the_environment_s_token_shadows_the_stored_one(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    store("hf_other")
    monkeypatch.setenv("HF_TOKEN", GOOD)
    account = hub.account()
    assert (account.name, account.source) == ("ada", "HF_TOKEN in the environment")
    assert account.note == "HF_TOKEN shadows the stored token"


def test_a_stored_token_that_the_hub_refuses(server: Hub) -> None:
    store("hf_expired")
    account = hub.account()
    assert account.name is None
    assert account.source == "stored"
    assert "refuse" in account.note and "hf_expired" not in account.note


def test_the_role_and_another_place_of_the_token(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    server.role = "fineGrained"
    store(GOOD)
    monkeypatch.setenv("HF_TOKEN_PATH", constants.HF_TOKEN_PATH)
    account = hub.account()
    assert account.role == "fine-grained"
    assert account.source == f"stored in {constants.HF_TOKEN_PATH}"


def test_a_token_that_is_not_sent(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    store(GOOD)
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_IMPLICIT_TOKEN", True)
    assert "HF_HUB_DISABLE_IMPLICIT_TOKEN" in hub.account().note


def test_a_file_that_comes_with_the_wrong_length_is_not_called_a_full_disk(
    server: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import huggingface_hub

    def broken(*args: object, **options: object) -> str:
        raise OSError("Consistency check failed: file should be of size 5 but has size 3")

    hub.fetch_config("org/single", "")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", broken)
    with pytest.raises(OfflineError, match="OSError"):
        get("org/single")


def test_a_full_disk_while_downloading(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub

    def full(*args: object, **options: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/cache/blob")

    hub.fetch_config("org/single", "")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", full)
    with pytest.raises(StorageError) as caught:
        get("org/single")
    assert caught.value.problem.title == "Disk full" and "HF_HOME" in caught.value.problem.remedy


def test_a_network_that_goes_away_while_downloading(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    import httpx2
    import huggingface_hub

    def away(*args: object, **options: object) -> str:
        raise httpx2.ConnectError("unreachable")

    hub.fetch_config("org/single", "")
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", away)
    with pytest.raises(OfflineError, match="not complete on this disk"):
        get("org/single")


def test_logout_forgets_this_token_and_no_other(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.login(GOOD)
    with Path(constants.HF_STORED_TOKENS_PATH).open("a") as file:
        file.write("[work]\nhf_token = hf_work\n")
    account = hub.logout()
    assert (account.name, account.source) == (None, "")
    left = Path(constants.HF_STORED_TOKENS_PATH).read_text()
    assert "hf_work" in left and GOOD not in left


def test_logout_of_a_token_that_has_no_name(server: Hub) -> None:
    store(GOOD)
    assert hub.logout().source == ""
    assert not Path(constants.HF_TOKEN_PATH).exists()


def test_logout_with_a_token_in_the_environment(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    hub.login(GOOD)
    monkeypatch.setenv("HF_TOKEN", GOOD)
    assert hub.logout().source == "HF_TOKEN in the environment"
    assert not Path(constants.HF_TOKEN_PATH).exists()


def test_the_account_of_an_offline_hub(nobody: None) -> None:
    store(GOOD)
    account = hub.account()
    assert (account.name, account.source) == (None, "stored")
    assert "not checked" in account.note


def test_login_to_an_offline_hub(nobody: None) -> None:
    with pytest.raises(OfflineError):
        hub.login(GOOD)


# --- what describes a model


def test_config_and_tokenizer_and_nothing_else(server: Hub) -> None:
    folder = hub.fetch_config("org/good", "")
    assert names(folder) == set(DESCRIPTION) | {"model.safetensors.index.json"}
    assert folder == snapshot("org/good", "")


def test_a_second_time_only_the_listing_is_asked_for(server: Hub) -> None:
    hub.fetch_config("org/good", "")
    server.requests.clear()
    hub.fetch_config("org/good", "v1")
    assert [path for _, path, _ in server.requests] == ["/api/models/org/good/revision/v1"]
    assert snapshot("org/good", "v1") == snapshot("org/good", "")


def test_the_size_of_the_weights(server: Hub) -> None:
    assert hub.weights_size("org/good", "") == 2 * SHARD
    assert hub.weights_size("org/single", "") == 1000


@pytest.mark.parametrize(
    ("model", "token", "kind", "words"),
    [
        ("org/nowhere", "", ModelError, ["org/nowhere", "private"]),
        ("org/nowhere", GOOD, ModelError, ["org/nowhere", "account"]),
        ("org/private", "", ModelError, ["org/private", "log in"]),
        ("org/gated", "", AccessError, ["terms", "nobody is logged in", "/org/gated"]),
        ("org/gated", GOOD, AccessError, ["terms", "this account has not", "/org/gated"]),
        ("org/awaiting", GOOD, AccessError, ["have not answered yet"]),
        ("org/good", "hf_wrong", AccessError, ["wrong, expired or revoked"]),
        ("org/broken", "", OfflineError, ["500"]),
        ("org/gguf", "", ModelError, ["config.json", "GGUF"]),
        ("org/lora", "", ModelError, ["config.json", "LoRA"]),
        ("bad//id", "", ModelError, ["bad//id"]),
    ],
)
def test_what_can_be_wrong_is_told_apart(
    server: Hub, model: str, token: str, kind: type[LlmchatError], words: list[str]
) -> None:
    if token:
        store(token)
    started = time.monotonic()
    with pytest.raises(kind) as caught:
        hub.fetch_config(model, "")
    assert type(caught.value) is kind
    text = f"{caught.value.problem.message} {caught.value.problem.remedy}"
    for word in words:
        assert word in text
    assert "hf_wrong" not in repr(caught.value.problem)
    assert time.monotonic() - started < 3


def test_an_unknown_revision(server: Hub) -> None:
    with pytest.raises(ModelError, match="no revision 'v9'"):
        hub.fetch_config("org/good", "v9")


def test_a_private_model_with_the_token(server: Hub) -> None:
    store(GOOD)
    assert "config.json" in names(hub.fetch_config("org/private", ""))


def test_an_offline_hub_is_told_at_once(nobody: None) -> None:
    started = time.monotonic()
    with pytest.raises(OfflineError) as caught:
        hub.fetch_config("org/good", "")
    assert constants.ENDPOINT in caught.value.problem.message
    assert time.monotonic() - started < 3


def test_a_hub_that_is_switched_off(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(OfflineError, match="HF_HUB_OFFLINE"):
        hub.fetch_config("org/good", "")
    assert server.requests == []


def test_a_hub_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmchat.session.hub.client.SECONDS", 0.2)
    monkeypatch.setattr("llmchat.session.hub.models.SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        use(f"http://127.0.0.1:{silent.getsockname()[1]}", monkeypatch)
        store(GOOD)
        started = time.monotonic()
        assert "not checked" in hub.account().note
        with pytest.raises(OfflineError):
            hub.fetch_config("org/good", "")
        assert time.monotonic() - started < 3


# --- weights


def test_only_safetensors_are_fetched_and_the_progress_is_bytes_of_all(server: Hub) -> None:
    seen: list[tuple[int, int]] = []
    folder = hub.download("org/good", "", lambda done, total: seen.append((done, total)), lambda: False)
    assert names(folder) == set(DESCRIPTION) | set(SHARDS) | {"model.safetensors.index.json"}
    assert (folder / "model-00001-of-00002.safetensors").read_bytes() == SHARDS["model-00001-of-00002.safetensors"]
    assert seen[0] == (0, 2 * SHARD) and seen[-1] == (2 * SHARD, 2 * SHARD)
    assert seen == sorted(seen)


def test_a_model_in_one_file(server: Hub) -> None:
    assert (get("org/single", "v1") / "model.safetensors").read_bytes() == b"w" * 1000


def test_pickle_weights_are_not_fetched(server: Hub) -> None:
    with pytest.raises(ModelError, match="pickle"):
        get("org/pickle")
    assert server.fetched("pytorch_model.bin") == 0


def test_a_dropped_connection_is_taken_up_again(server: Hub) -> None:
    server.drop_after = 2**20
    folder = get("org/good")
    assert server.dropped == set(SHARDS)
    assert all((folder / name).read_bytes() == data for name, data in SHARDS.items())


def test_cancelling_takes_less_than_half_a_second_and_finished_files_are_kept(server: Hub) -> None:
    server.repos["org/good"] = Repo({**REPOS["org/good"].files, "model-00001-of-00002.safetensors": b"1" * 1000})
    folder = hub.fetch_config("org/good", "")
    server.hold.clear()
    asked: list[float] = []

    def cancelled() -> bool:
        if (folder / "model-00001-of-00002.safetensors").exists():
            asked.append(time.monotonic())
        return bool(asked)

    with pytest.raises(Cancelled):
        get("org/good", cancelled=cancelled)
    assert time.monotonic() - asked[0] < 0.5
    server.hold.set()
    get("org/good")
    assert server.fetched("model-00001-of-00002.safetensors") == 1
    assert server.fetched("model-00002-of-00002.safetensors") == 2


def test_nothing_half_fetched_is_left_after_cancelling(server: Hub) -> None:
    server.hold.clear()
    with pytest.raises(Cancelled):
        get("org/good", cancelled=lambda: server.fetched("model-00001-of-00002.safetensors") > 0)
    server.hold.set()
    blobs = repository("org/good") / "blobs"
    until = time.monotonic() + 10
    while list(blobs.glob("*.incomplete")):
        assert time.monotonic() < until
        threading.Event().wait(0.02)
    assert snapshot("org/good", "") is not None


def test_what_a_dead_process_left_is_deleted_and_what_a_living_one_writes_is_not(server: Hub) -> None:
    blobs = repository("org/single") / "blobs"
    blobs.mkdir(parents=True)
    old, new = blobs / "x.1.incomplete", blobs / "x.2.incomplete"
    old.write_bytes(b"x")
    new.write_bytes(b"x")
    past = time.time() - transfer_module.STALE_SECONDS - 1
    os.utime(old, (past, past))
    get("org/single")
    assert not old.exists() and new.exists()


def test_a_disk_that_is_too_small_is_told_before(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=2**20))
    with pytest.raises(StorageError) as caught:
        get("org/good")
    assert "0.0 GiB are free" in caught.value.problem.message
    assert not any(server.fetched(name) for name in SHARDS)


def test_offline_with_everything_here(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = get("org/good")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch_config("org/good", "") == folder
    assert get("org/good") == folder


def test_offline_with_the_weights_missing(server: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = hub.fetch_config("org/good", "")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert hub.fetch_config("org/good", "") == folder
    with pytest.raises(OfflineError, match="not complete on this disk"):
        get("org/good")


def test_the_token_is_in_no_log_and_the_client_prints_nothing(
    server: Hub, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    hub.login(GOOD)
    get("org/single")
    for model in ("org/gated", "org/broken", "org/nowhere"):
        with pytest.raises(LlmchatError) as caught:
            get(model)
        assert GOOD not in repr(caught.value.problem)
    assert GOOD not in caplog.text
    assert capfd.readouterr() == ("", "")
