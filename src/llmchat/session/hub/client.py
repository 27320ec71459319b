"""The hub client as llmchat uses it: quiet, with time limits, its errors turned into ours."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from llmchat.errors import AccessError, LlmchatError, ModelError, OfflineError, StorageError

if TYPE_CHECKING:
    from huggingface_hub import HfApi

__all__ = ["SECONDS", "api", "translated"]

SECONDS = 6.0
"""For a question to the hub, connection and answer each; downloads have the client's own limit."""
HOW_TO_LOG_IN = "F5 in the list of models (llmchat without a model), or the variable HF_TOKEN"


def api() -> HfApi:
    """The client, with a time limit on every request and nothing printed to the screen."""
    from huggingface_hub import HfApi
    from huggingface_hub.utils import get_session, logging

    logging.set_verbosity(logging.CRITICAL)
    get_session().timeout = SECONDS
    return HfApi(library_name="llmchat")


@contextlib.contextmanager
def translated(model_id: str = "", revision: str = "") -> Iterator[None]:
    """What the hub client raises becomes one of our errors, about this model where one is given."""
    try:
        yield
    except LlmchatError:
        raise
    except Exception as error:
        raise explained(error, model_id, revision) from None


def explained(error: Exception, model_id: str = "", revision: str = "") -> LlmchatError:
    """The hub client's errors in words. Some are subclasses of others: the order matters."""
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return gated(error, model_id)
    if isinstance(error, errors.DisabledRepoError):
        return ModelError("Model disabled", f"The hub has disabled {model_id}.", "Choose another model.")
    if isinstance(error, errors.RepositoryNotFoundError):
        return not_found(model_id)
    if isinstance(error, errors.RevisionNotFoundError):
        return ModelError(
            "Revision not found",
            f"{model_id} is on the hub, and has no revision {revision!r}.",
            f"The revisions are listed at {endpoint()}/{model_id}/tree/main.",
        )
    if isinstance(error, errors.HFValidationError):
        return ModelError("Not a model id", f"{model_id!r} cannot be a hub id.", "One looks like Qwen/Qwen3-4B.")
    if isinstance(error, errors.OfflineModeIsEnabled):
        return OfflineError(
            "The hub is switched off",
            "HF_HUB_OFFLINE is set, so the hub is not asked" + _needed(model_id),
            "Unset HF_HUB_OFFLINE, or choose a model that is on this disk.",
        )
    if isinstance(error, errors.LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        return explained(error.__cause__, model_id, revision)
    status = _status(error)
    if status is not None:
        return _by_status(status, error, model_id)
    if isinstance(error, errors.LocalEntryNotFoundError | errors.FileMetadataError) or _is_network(error):
        return unreachable(error, model_id)
    if isinstance(error, OSError) and error.errno is not None:
        return _storage(error)
    return OfflineError(
        "The hub could not be used",
        f"{endpoint()} was asked{_about(model_id)}, and the hub client failed with {type(error).__name__}.",
        "Try again; what is finished is kept.",
        detail=f"{type(error).__name__}: {error}",
    )


def gated(error: Any, model_id: str) -> AccessError:
    """Which of the steps to a gated model is next: log in, ask for access, or wait."""
    from huggingface_hub import get_token

    page = f"{endpoint()}/{model_id}"
    words = str(getattr(error, "server_message", None) or error).lower()
    if get_token() is None:
        return AccessError(
            "Gated model",
            f"{model_id} is only for people who accepted its terms, and nobody is logged in.",
            f"1. Accept the terms at {page}. 2. Log in with a token of the same account: {HOW_TO_LOG_IN}.",
        )
    if "awaiting" in words or "pending" in words:
        return AccessError(
            "Access not granted yet",
            f"You asked for access to {model_id}, and its authors have not answered yet.",
            f"Wait for their answer; {page} shows it.",
        )
    if "reject" in words:
        return AccessError(
            "Access refused", f"The authors of {model_id} refused access to this account.", "Choose another model."
        )
    if "fine-grained" in words or "finegrained" in words or "enable access to public gated" in words:
        return AccessError(
            "The token may not read gated models",
            f"{model_id} is gated, and this fine-grained token does not allow reading public gated models.",
            f"Allow it at {endpoint()}/settings/tokens, or log in with a read token.",
        )
    return AccessError(
        "Gated model",
        f"{model_id} is only for people who accepted its terms, and this account has not.",
        f"Accept them at {page}, then open the model again.",
    )


def not_found(model_id: str) -> ModelError | AccessError:
    """The hub hides private models from strangers, and answers the same for both."""
    from huggingface_hub import get_token

    if get_token() is None:
        what, then = (
            "or it is private, and nobody is logged in",
            f"Check the spelling; for a private model log in: {HOW_TO_LOG_IN}.",
        )
    else:
        what, then = (
            "or it is private, and the account in force may not see it",
            "Check the spelling, and the account's access.",
        )
    return ModelError("Model not found", f"The hub knows no model {model_id}, {what}.", then)


def unreachable(error: Exception, model_id: str = "") -> OfflineError:
    return OfflineError(
        "The hub cannot be reached",
        f"There is no connection to {endpoint()}{_needed(model_id)}",
        "Check the network and the proxy, or choose a model that is on this disk.",
        detail=f"{type(error).__name__}: {error}",
    )


def endpoint() -> str:
    """The hub's address, as HF_ENDPOINT may have set it."""
    from huggingface_hub import constants

    return str(constants.ENDPOINT)


def _by_status(status: int, error: Exception, model_id: str) -> LlmchatError:
    if status == 401:
        return AccessError(
            "Token refused",
            "The hub refuses the token in force: it is wrong, expired or revoked.",
            f"Log in with a new one from {endpoint()}/settings/tokens: {HOW_TO_LOG_IN}.",
        )
    if status == 403:
        return AccessError(
            "Access refused",
            f"The token in force does not allow this{_about(model_id)}.",
            f"Give it more rights at {endpoint()}/settings/tokens, or log in with another one.",
        )
    if status == 429:
        return OfflineError(
            "The hub asks for patience",
            "Too many requests came from here; the hub answers with status 429.",
            "Try again in some minutes; with a login more is allowed.",
        )
    if status == 404:
        return ModelError("File not found", f"The hub lacks a file{_about(model_id)}.", "Choose another revision.")
    return OfflineError(
        "The hub has a problem",
        f"{endpoint()} answered with status {status}{_about(model_id)}.",
        "Try again later, or choose a model that is on this disk.",
        detail=f"{type(error).__name__}: {error}",
    )


def _storage(error: OSError) -> StorageError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return StorageError(
        "Disk full" if full else "The hub cache cannot be written",
        f"{error.filename or 'The hub cache'}: {error.strerror or error}.",
        "Free some space, or set HF_HOME to another disk." if full else "Check the rights, or set HF_HOME.",
    )


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _is_network(error: BaseException) -> bool:
    """By module, because the client is httpx or httpx2 by its version; and by what lies beneath."""
    if type(error).__module__.partition(".")[0] in ("httpx", "httpx2", "httpcore", "httpcore2", "hf_xet"):
        return True
    return isinstance(error, ConnectionError | TimeoutError)


def _about(model_id: str) -> str:
    return f" ({model_id})" if model_id else ""


def _needed(model_id: str) -> str:
    return f", and {model_id} is not complete on this disk." if model_id else "."
