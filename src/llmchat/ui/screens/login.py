"""Log in to the Hugging Face hub by pasting a token."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import ClassVar

from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Static

from llmchat.errors import LlmchatError
from llmchat.session.state import HubAccount, SessionState
from llmchat.ui import keys
from llmchat.ui.screens.base import Dialog, StateView
from llmchat.ui.widgets.field import Field
from llmchat.ui.widgets.memory_text import MUTED

TOKEN_PAGE = "huggingface.co/settings/tokens"


class LoginScreen(StateView, Dialog[None]):
    """The token is shown as dots, checked with the hub, and stored where the hub's own tools store it."""

    CSS_PATH = "login.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.LOGIN]
    HEADING = "Hugging Face login"
    HINTS = (("Enter", "log in"), ("^O", "log out"), ("Esc", "close"))

    def body(self) -> Iterable[Widget]:
        yield Static(id="who")
        yield Field(password=True, placeholder="Paste a token: hf_...", id="token")
        yield Static(f"A token with read access is enough: {TOKEN_PAGE}", id="where")
        yield Static(id="answer")

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def show(self, state: SessionState) -> None:
        self.query_one("#who", Static).update(_who(state.account))

    @on(Input.Submitted)
    def _login(self, event: Input.Submitted) -> None:
        token = event.value.strip()
        if token:
            self._ask(self.session.login(token))

    def action_logout(self) -> None:
        self._ask(self.session.logout())

    @work(exclusive=True)
    async def _ask(self, question: Awaitable[HubAccount]) -> None:
        """Wait for the hub; say what it answered."""
        answer, token = self.query_one("#answer", Static), self.query_one(Input)
        answer.update(Content.styled("Asking the hub ...", MUTED))
        token.disabled = True
        try:
            account = await question
        except LlmchatError as error:
            lines = [(error.title + "\n", "bold $error"), (error.message, "$error")]
            answer.update(Content.assemble(*lines, (f"\n{error.remedy}", MUTED) if error.remedy else ""))
        else:
            token.value = ""
            said = f"Logged in as {account.name}." if account.name else "Logged out."
            answer.update(Content.styled(said, "$success"))
            self.query_one("#who", Static).update(_who(account))
        token.disabled = False
        token.focus()


def _who(account: HubAccount) -> Content:
    if account.name is None:
        return Content.assemble("Nobody is logged in", (f": {account.note}" if account.note else "", MUTED), ".")
    role = f" ({account.role})" if account.role else ""
    source = f"\nToken: {account.source}" if account.source else ""
    note = f"\n{account.note}" if account.note else ""
    return Content.assemble("Logged in as ", (account.name, "bold"), role, (source, MUTED), (note, "$warning"))
