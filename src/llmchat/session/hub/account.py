"""Who is logged in, and where the token in force comes from."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from llmchat.errors import AccessError, LlmchatError, OfflineError
from llmchat.session.hub.client import api, endpoint, translated
from llmchat.session.state import HubAccount

__all__ = ["account", "login", "logout"]

VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def account() -> HubAccount:
    """Asks the hub whose token it is. Nothing is raised: what went wrong is in ``note``."""
    source, note = _source(), _shadow()
    try:
        with translated():
            from huggingface_hub import get_token

            token = get_token()
            if token is None:
                return HubAccount(note="public models only")
            who = api().whoami(token)
    except OfflineError as error:
        return HubAccount(
            source=source, note=_joined(note, f"not checked: {error.title[0].lower()}{error.title[1:]}")
        )
    except LlmchatError as error:
        return HubAccount(source=source, note=_joined(note, f"{error.title}: {error.message}"))
    return HubAccount(name=str(who.get("name") or "?"), source=source or "found", role=_role(who), note=note)


def login(token: str) -> HubAccount:
    """Check the token with the hub, then store it where the hub client does. Raises AccessError, OfflineError."""
    token = token.strip()
    if not token or not token.isascii() or any(character.isspace() for character in token):
        raise AccessError("Not a token", "A token is one word that begins with hf_.", _get_one())
    if token.startswith("api_org"):
        raise AccessError("An organization's token", "Only a person's own token can log in.", _get_one())
    with translated():
        from huggingface_hub import login

        api()
        login(token, add_to_git_credential=False)
    return account()


def logout() -> HubAccount:
    """Forget the stored token in force, not other stored ones. One in the environment stays in force."""
    with translated():
        from huggingface_hub import constants, get_token
        from huggingface_hub import logout as forget

        api()
        name = _stored_name()
        try:
            if name:
                forget(name)
        except OSError:
            pass  # the client complains about a token in the environment, which the account tells anyway
        Path(constants.HF_TOKEN_PATH).unlink(missing_ok=True)
        if get_token() is None:
            return HubAccount(note="logged out")
    return account()


def _source() -> str:
    """Where ``get_token`` takes it from, in words."""
    if os.environ.get("HF_OIDC_RESOURCE"):
        return "HF_OIDC_RESOURCE in the environment"
    variable = _variable()
    if variable:
        return f"{variable} in the environment"
    if not _stored():
        return ""
    name = _stored_name()
    place = f"in {os.environ['HF_TOKEN_PATH']}" if os.environ.get("HF_TOKEN_PATH") else ""
    return " ".join(filter(None, ("stored", f"as {name}" if name else "", place)))


def _shadow() -> str:
    variable, stored = _variable(), _stored()
    if variable and stored and stored != os.environ[variable].strip():
        return f"{variable} shadows the stored token"
    from huggingface_hub import constants

    if constants.HF_HUB_DISABLE_IMPLICIT_TOKEN and (variable or stored):
        return "HF_HUB_DISABLE_IMPLICIT_TOKEN is set: models are asked for without the token"
    return ""


def _variable() -> str:
    return next((name for name in VARIABLES if os.environ.get(name, "").strip()), "")


def _stored() -> str:
    from huggingface_hub import constants

    try:
        return Path(constants.HF_TOKEN_PATH).read_text().strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _stored_name() -> str:
    """The name under which the hub client keeps the stored token; empty where it has none."""
    from huggingface_hub.utils import get_stored_tokens

    stored = _stored()
    return next((name for name, token in get_stored_tokens().items() if stored and token == stored), "")


def _role(who: dict[str, Any]) -> str:
    found = ((who.get("auth") or {}).get("accessToken") or {}).get("role")
    return {"fineGrained": "fine-grained"}.get(str(found), str(found or ""))


def _joined(*notes: str) -> str:
    return "; ".join(note for note in notes if note)


def _get_one() -> str:
    return f"Make one at {endpoint()}/settings/tokens (read is enough) and paste all of it."
